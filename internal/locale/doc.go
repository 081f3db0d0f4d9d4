// Package locale holds what people are told, in their language: English, Japanese, Thai and traditional
// Chinese.
//
// A catalogue is a YAML file of sentences by id, with plural forms where a language has them
// (https://github.com/nicksnyder/go-i18n); what people are answered stands, in English, in the package
// internal/locale/phrases. What pages say stands in a folder for each area of them, whose name its ids begin with, and
// is read when the first page is. A sentence's placeholders are named, so that a translation may order them as it
// likes, and what fills them is data: it is never read as a template. Tests hold that no language lacks a sentence or a
// placeholder. Times and durations are written as the language writes them.
package locale

package locale

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"

	"countersign/internal/locale/phrases"
)

//go:embed *.yaml */*.yaml
var files embed.FS

// Default is the language of whoever has chosen none.
const Default = "en"

// tags are the languages that there are, the default first.
var tags = []string{Default, "ja", "th", "zh-TW"}

// Tags returns the languages that there are, as the configuration spells them.
func Tags() []string { return append([]string(nil), tags...) }

// Language is one of [Tags]. The nil Language is English. It is safe for concurrent use.
type Language struct {
	tag string
	// The sentences, and those of pages. Each catalogue is read once the first of its sentences is said.
	messages, pages func() *i18n.Localizer
	said            sync.Map // of id, the sentence: those that were said, but for those that depend on a number
}

var languages = load()

// load makes the languages.
func load() map[string]*Language {
	known := map[string]*Language{}
	for _, tag := range tags {
		known[tag] = &Language{tag: tag,
			messages: sync.OnceValue(func() *i18n.Localizer { return i18n.NewLocalizer(bundle(tag), tag) }),
			pages:    sync.OnceValue(func() *i18n.Localizer { return i18n.NewLocalizer(pageBundle(tag), tag) })}
	}
	return known
}

// withDefault are the languages that a sentence in the language tag may come from.
func withDefault(tag string) []string {
	if tag == Default {
		return []string{Default}
	}
	return []string{Default, tag}
}

// pageBundle reads the catalogues of the pages: a folder for each area, with a file for each language. Whoever opens no
// page does without their memory.
func pageBundle(tag string) *i18n.Bundle {
	b := i18n.NewBundle(language.English)
	b.RegisterUnmarshalFunc("yaml", yaml.Unmarshal)
	for _, area := range areas() {
		for _, t := range withDefault(tag) {
			if _, err := b.LoadMessageFileFS(files, area+"/"+t+".yaml"); err != nil {
				panic(fmt.Errorf("locale: %w", err))
			}
		}
	}
	return b
}

// areas are the folders.
func areas() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Errorf("locale: %w", err)) // embedded, or the build is broken
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// bundle reads the catalogues. They are part of the program, so what is wrong with them is found by any
// test that says something in their language.
func bundle(tag string) *i18n.Bundle {
	b := i18n.NewBundle(language.English)
	b.RegisterUnmarshalFunc("yaml", yaml.Unmarshal)
	var gate []*i18n.Message
	for p, s := range phrases.English {
		gate = append(gate, &i18n.Message{ID: string(p), Other: braces.Replace(s)})
	}
	if err := b.AddMessages(language.English, gate...); err != nil {
		panic(fmt.Errorf("locale: %w", err))
	}
	for _, t := range withDefault(tag) {
		if _, err := b.LoadMessageFileFS(files, t+".yaml"); err != nil {
			panic(fmt.Errorf("locale: %w", err))
		}
	}
	return b
}

// braces turns the gate's {name} into a template's.
var braces = strings.NewReplacer("{", "{{.", "}", "}}")

// Get returns the language with this tag, English where there is none.
func Get(tag string) *Language {
	if l, ok := languages[tag]; ok {
		return l
	}
	return languages[Default]
}

// Tag is the language as the configuration and HTML spell it: "en", "zh-TW".
func (l *Language) Tag() string { return l.orEnglish().tag }

func (l *Language) orEnglish() *Language {
	if l == nil {
		return languages[Default]
	}
	return l
}

// Say returns the sentence id with its placeholders filled in, args being names and values in turn. Where n is
// a whole number the sentence is in the form that the language has for n things. What is filled in is
// not looked at again. A sentence that this language lacks is said in English, and one that nobody knows
// by its id.
func (l *Language) Say(id string, args ...string) string {
	l = l.orEnglish()
	known, kept := l.said.Load(id)
	if kept {
		if s, ok := known.(*sentence).say(args); ok {
			return s
		}
	}
	s, found := l.find(id, args)
	if found && !kept {
		l.keep(id, args)
	}
	return s
}

// find is Say by the catalogue. It reports whether there is such a sentence.
func (l *Language) find(id string, args []string) (said string, found bool) {
	data := make(map[string]any, len(args)/2)
	for i := 0; i+1 < len(args); i += 2 {
		data[args[i]] = args[i+1]
	}
	c := i18n.LocalizeConfig{MessageID: id, TemplateData: data}
	if n, ok := data["n"].(string); ok {
		if n, err := strconv.Atoi(n); err == nil {
			c.PluralCount = n
		}
	}
	// The error is also of a sentence that has one form for all numbers, which then is what comes back.
	s, err := l.messages().Localize(&c)
	if s == "" && err != nil {
		s, err = l.pages().Localize(&c)
	}
	if s == "" && err != nil {
		return id, false
	}
	return s, true
}

// Count is [Language.Say] of n things, {{.n}} being n.
func (l *Language) Count(id string, n int, args ...string) string {
	return l.Say(id, append(args[:len(args):len(args)], "n", strconv.Itoa(n))...)
}

// List lists things, as the language does.
func (l *Language) List(items []string) string {
	said := ""
	for n, item := range items {
		switch n {
		case 0:
			said = item
		case len(items) - 1:
			said = l.Say("list_last", "before", said, "next", item)
		default:
			said = l.Say("list_more", "before", said, "next", item)
		}
	}
	return said
}

// Mark is what stands in the place of a secret of so many characters, whose SHA-256 begins with these hex digits.
func (l *Language) Mark(characters int, digest string) string {
	return l.Count("mark", characters, "hash", digest)
}

// Sentences puts one after the other, without those that are empty. Full-width punctuation brings its own space.
func Sentences(sentences ...string) string {
	said := ""
	for _, s := range sentences {
		if said != "" && s != "" && !strings.HasSuffix(said, "。") && !strings.HasSuffix(said, "：") {
			said += " "
		}
		said += s
	}
	return said
}

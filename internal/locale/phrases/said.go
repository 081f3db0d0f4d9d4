package phrases

// Said is a phrase and what fills it in, kept apart until somebody reads it in their language. A value may be Said
// itself, or several in a row.
type Said struct {
	Phrase Phrase
	Args   []any // names and values in turn
}

// String says it in English.
func (s Said) String() string { return s.In(Phrase.Say) }

// In says it to one reader.
func (s Said) In(say Sayer) string {
	args := make([]any, len(s.Args))
	for i, v := range s.Args {
		switch v := v.(type) {
		case Said:
			args[i] = v.In(say)
		case []Said:
			args[i] = inARow(say, v)
		default:
			args[i] = v
		}
	}
	return say(s.Phrase, args...)
}

func inARow(say Sayer, all []Said) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.In(say)
	}
	return say.All(names)
}

// InEnglish says each in English, as logs and the audit log hold them.
func InEnglish(all []Said) (texts []string) {
	for _, s := range all {
		texts = append(texts, s.String())
	}
	return texts
}

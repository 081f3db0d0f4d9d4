package policy

import (
	"fmt"
	"slices"
	"strings"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

var annotationSynonyms = map[string]string{
	"read_only": "readOnly", "readonly": "readOnly", "readOnlyHint": "readOnly", "read_only_hint": "readOnly",
	"destructiveHint": "destructive", "destructive_hint": "destructive", "idempotentHint": "idempotent",
	"idempotent_hint": "idempotent", "open_world": "openWorld", "openworld": "openWorld", "openWorldHint": "openWorld",
	"open_world_hint": "openWorld",
}

func (r *reader) annotations(e pair) *approval.Annotations {
	a := &approval.Annotations{}
	before := len(r.problems)
	keys := map[string]func(pair){}
	for name, hint := range hints(a) {
		keys[name] = func(e pair) { *hint = r.boolean(e) }
	}
	r.mapping(e.value, e.path, keys, annotationSynonyms)
	if len(r.problems) == before && len(e.value.Entries) == 0 {
		r.failAt(e.pos, e.path, "an empty mapping has no meaning here; leave annotations out")
	}
	return a
}

func hints(a *approval.Annotations) map[string]**bool {
	return map[string]**bool{
		"readOnly": &a.ReadOnly, "destructive": &a.Destructive, "idempotent": &a.Idempotent, "openWorld": &a.OpenWorld,
	}
}

// matchesAnnotations reports whether the server says of the tool what the rule wants said. What it does not say is
// unknown, and never as wanted.
func (r *rule) matchesAnnotations(said *approval.Annotations) bool {
	want := r.annotations
	if want == nil {
		return true
	}
	if said == nil {
		return false
	}
	same := func(want, said *bool) bool { return want == nil || said != nil && *said == *want }
	return same(want.ReadOnly, said.ReadOnly) && same(want.Destructive, said.Destructive) &&
		same(want.Idempotent, said.Idempotent) && same(want.OpenWorld, said.OpenWorld)
}

// warnUnproven warns of a rule that lets through whatever a server says of its tools.
func (c *compiler) warnUnproven(r *rule) {
	if r.action != approval.Allow || r.annotations == nil || len(r.conditions) > 0 || r.when != nil {
		return
	}
	if slices.ContainsFunc(r.targets, func(t target) bool { return !t.tool.literal() }) {
		c.warn(r.origin, "annotations", "this rule allows whatever tools a server declares to be so, and that is no proof: "+
			"name the tools, or add conditions")
	}
}

// AnnotationsInWords tells what its server must say of a tool, "" for nothing.
func (r RuleInfo) AnnotationsInWords() string {
	if r.Annotations == nil {
		return ""
	}
	return annotationsInWords(r.Annotations)
}

// annotationsInWords tells what is said of a tool: "readOnly: true, destructive: false".
func annotationsInWords(a *approval.Annotations) string {
	if a == nil {
		return phrases.StepNothing.Say()
	}
	var parts []string
	all := hints(a)
	for _, name := range []string{"readOnly", "destructive", "idempotent", "openWorld"} {
		if hint := *all[name]; hint != nil {
			parts = append(parts, fmt.Sprintf("%s: %t", name, *hint))
		}
	}
	if len(parts) == 0 {
		return phrases.StepNothing.Say()
	}
	return strings.Join(parts, ", ")
}

// annotationsSaid is annotationsInWords, to be said in any language: the hints are called alike in all.
func annotationsSaid(a *approval.Annotations) any {
	words := annotationsInWords(a)
	if words == phrases.StepNothing.Say() {
		return said(phrases.StepNothing)
	}
	return words
}

package config

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"countersign/channels"
	"countersign/channels/kind"
	"countersign/internal/loopback"
	"countersign/internal/secret"
	"countersign/internal/yamlpos"
)

// decodePeople reads people, each of whom may have a key for each kind of channel: their address there.
func (c *checker) decodePeople(nodes []*yamlpos.Node) {
	if nodes == nil {
		return
	}
	fields := []reflect.StructField{{Name: "Person", Type: reflect.TypeFor[Person](), Tag: `yaml:",inline"`}}
	for i, k := range c.cfg.kinds {
		fields = append(fields, field(i, k, reflect.TypeFor[string]()))
	}
	form := reflect.StructOf(fields)
	c.cfg.File.People = make([]Person, len(nodes))
	for i, n := range nodes {
		v := reflect.New(form).Elem()
		p := v.Field(0).Addr().Interface().(*Person)
		p.SetDefaults()
		c.Decode(fmt.Sprintf("$.people[%d]", i), n, v.Addr().Interface())
		for j, k := range c.cfg.kinds {
			if address := v.Field(j + 1).String(); address != "" {
				if p.Addresses == nil {
					p.Addresses = map[string]channels.Address{}
				}
				p.Addresses[k.Name] = channels.NewAddress(address, k.Address.Secret)
			}
		}
		c.cfg.File.People[i] = *p
	}
}

// decodeChannels reads the sections of the channels.
func (c *checker) decodeChannels(n *yamlpos.Node) {
	if n == nil || n.Kind == yamlpos.Null {
		return
	}
	c.cfg.Channels = Channels{}
	var fields []reflect.StructField
	for i, k := range c.cfg.kinds {
		fields = append(fields, field(i, k, reflect.TypeOf(k.Section())))
	}
	v := reflect.New(reflect.StructOf(fields)).Elem()
	c.Decode("$.channels", n, v.Addr().Interface())
	for i, k := range c.cfg.kinds {
		if section := v.Field(i); !section.IsNil() {
			c.cfg.Channels[k.Name] = section.Interface().(kind.Section)
		}
	}
}

// field is the field that the key of a kind is decoded into.
func field(i int, k kind.Kind, t reflect.Type) reflect.StructField {
	return reflect.StructField{Name: fmt.Sprintf("Kind%d", i), Type: t,
		Tag: reflect.StructTag(fmt.Sprintf("yaml:%q", k.Name))}
}

// channels checks the sections of the channels.
func (c *checker) channels() {
	for _, k := range c.cfg.kinds {
		if s := c.cfg.Channels[k.Name]; s != nil {
			s.Check(&sectionCheck{c, k, "$.channels." + k.Name})
		}
	}
}

// waysIn are the channels on which people decide.
func (c *checker) waysIn() []string {
	var names []string
	for _, k := range c.cfg.kinds {
		if k.Inbound != nil {
			names = append(names, k.Name)
		}
	}
	return names
}

// allWaysIn are the keys of people by which they decide, their token aside.
func (c *checker) allWaysIn() []string {
	ways := c.waysIn()
	if c.cfg.SignIn.OpenID != nil {
		ways = append(ways, "openid", "email")
	}
	return ways
}

// canDecide reports whether there is a way for a person to decide anything.
func (c *checker) canDecide(p Person) bool {
	return p.Token != "" || c.cfg.SignIn.OpenID != nil && p.signsIn() || slices.ContainsFunc(c.waysIn(),
		func(name string) bool { return p.Addresses[name].Reveal() != "" })
}

// sectionCheck is what the section of a channel is checked with.
type sectionCheck struct {
	*checker
	kind kind.Kind
	path string
}

func (s *sectionCheck) at(field string) string {
	if field == "" {
		return s.path
	}
	return s.path + "." + field
}

// Problems implements [kind.Checks].
func (s *sectionCheck) Problems(err error) {
	if err == nil {
		return
	}
	ps, ok := errors.AsType[channels.Problems](err)
	if !ok {
		s.errorf(s.path, "%s", err)
		return
	}
	for _, p := range ps {
		if at := s.at(p.Instead); p.Instead != "" && s.Said[at] { // it is there, and empty: that is what was meant
			s.errorf(at, "%s is empty", p.Instead)
			continue
		}
		s.errorf(s.at(p.Field), "%s %s", p.Field, p.Message)
	}
}

// Errorf implements [kind.Checks].
func (s *sectionCheck) Errorf(field, format string, args ...any) {
	s.errorf(s.at(field), format, args...)
}

// Warnf implements [kind.Checks].
func (s *sectionCheck) Warnf(field, format string, args ...any) {
	s.warnf(s.at(field), format, args...)
}

// Own implements [kind.Checks].
func (s *sectionCheck) Own(field, who string, secrets ...secret.Value) {
	for i, one := range secrets {
		at := fmt.Sprintf("%s[%d]", s.at(field), i)
		if _, ok := s.Places[at]; !ok {
			at = s.at(field)
		}
		s.checkUnique(at, "token", one.Reveal(), who)
	}
}

// Endpoint implements [kind.Checks].
func (s *sectionCheck) Endpoint(field, address string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || loopback.IsHost(u.Hostname()) {
		return
	}
	s.errorf(s.at(field), "%s must be https, or on this machine: the channel's token goes there", field)
}

// Locale implements [kind.Checks].
func (s *sectionCheck) Locale(field, tag string) { s.locale(s.at(field), tag) }

// Notify implements [kind.Checks].
func (s *sectionCheck) Notify(names []string) (approvers int) {
	people := s.cfg.File.People
	for i, name := range names {
		entry := fmt.Sprintf("%s[%d]", s.at("notify"), i)
		if s.Bad[entry] {
			continue
		}
		at := slices.IndexFunc(people, func(p Person) bool { return p.Name == name })
		if at < 0 {
			s.reportUnknown(entry, name)
			continue
		}
		switch p := people[at]; {
		case p.Addresses[s.kind.Name].Reveal() == "":
			s.errorf(entry, "%s has no %s to be notified at; add %s to that person", name, s.kind.Address.What,
				s.kind.Address.How)
		case len(p.Channels) > 0 && !slices.Contains(p.Channels, s.kind.Name):
			s.errorf(entry, "%s gets cards on %s only (people[].channels); add this channel there, or remove the name here",
				name, strings.Join(p.Channels, ", "))
		case p.has(roleApprover):
			approvers++
		}
	}
	return approvers
}

// reportUnknown reports a name that no person has.
func (s *sectionCheck) reportUnknown(entry, name string) {
	var known []string
	for _, p := range s.cfg.File.People {
		known = append(known, p.Name)
	}
	s.errorf(entry, "nobody in people is called %q%s", name, yamlpos.DidYouMean(name, known))
}

// IsChosen implements [kind.Checks].
func (s *sectionCheck) IsChosen() bool {
	return slices.ContainsFunc(s.cfg.File.People, func(p Person) bool { return slices.Contains(p.Channels, s.kind.Name) })
}

// CanDecide implements [kind.Checks].
func (s *sectionCheck) CanDecide() bool {
	return slices.ContainsFunc(s.cfg.File.People, func(p Person) bool {
		return p.has(roleApprover) && p.Addresses[s.kind.Name].Reveal() != ""
	})
}

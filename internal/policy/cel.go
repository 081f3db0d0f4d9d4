package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"countersign/approval/args"
	"countersign/approval/args/decimal"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits on expressions. The cost limit is in CEL's own unit, about one per operation, and is what
// normally ends a runaway expression, after some 50 ms. The deadline stands behind it, for what CEL
// estimates too low: near enough that such calls starve nobody, and far enough that a busy machine
// does not deny what is within the cost limit.
const (
	maxExpression  = 4096 // code points
	maxRecursion   = 64
	costLimit      = 1_000_000
	interruptEvery = 100 // iterations
	celDeadline    = 250 * time.Millisecond

	// What the estimates at load take for the length of an unknown list or text: in a usual call, and
	// the most that fits into a request.
	usualLength = 1000
	mostLength  = 1 << 20
)

// program is a compiled when.
type program struct {
	source  string
	prog    cel.Program
	loops   bool            // it can run long, so it needs the deadline
	metered bool            // it can exceed the cost limit
	fields  map[string]bool // the names it selects
	looks   []look          // where it reads them
}

// celEnv is the environment of all expressions; making one takes milliseconds, so it is made once,
// by the first policy that has an expression.
var celEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("method", cel.StringType),
		cel.Variable("tool", cel.StringType),
		cel.Variable("server", cel.StringType),
		cel.Variable("agent", cel.StringType),
		cel.Variable("scope", cel.StringType),
		cel.Variable("session_id", cel.StringType),
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
		cel.OptionalTypes(),
		cel.CustomTypeAdapter(adapter{}),
		cel.ParserRecursionLimit(maxRecursion),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.RegexProgramSizeLimit(5000),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	)
})

// celProblem is what is wrong with an expression; line counts from 1 and column from 0, both within
// the expression.
type celProblem struct {
	line, column int
	message      string
	warning      bool
	whole        bool // it is of the whole expression, and no place in it
}

// excerpt is the line of an expression that the problem is in, and how many characters of it stand before the place.
func (p *celProblem) excerpt(source string) (line string, before int) {
	lines := strings.Split(source, "\n")
	if p.whole || p.line < 1 || p.line > len(lines) {
		return "", 0
	}
	return lines[p.line-1], p.column
}

// compileWhen compiles an expression. The program is nil if any problem is more than a warning.
func compileWhen(source string) (*program, []celProblem) {
	whole := func(format string, values ...any) []celProblem {
		return []celProblem{{line: 1, message: fmt.Sprintf(format, values...), whole: true}}
	}
	env, err := celEnv()
	if err != nil {
		return nil, whole("CEL is not available: %v", err)
	}
	checked, issues := env.Compile(source)
	if issues != nil && len(issues.Errors()) > 0 {
		var problems []celProblem
		for _, e := range issues.Errors() {
			m, _, _ := strings.Cut(e.Message, "\n")
			m = strings.TrimSuffix(m, " (in container '')")
			m, _, _ = strings.Cut(m, " expecting ")
			m = strings.Replace(m, "Syntax error: ", "syntax error: ", 1)
			if name, ok := strings.CutPrefix(m, "undeclared reference to '"); ok {
				m += fmt.Sprintf("; an argument is written args.%s", strings.TrimSuffix(name, "'"))
			}
			problems = append(problems, celProblem{line: e.Location.Line(), column: e.Location.Column(), message: m})
		}
		return nil, problems
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, whole("the expression gives %s; a condition must be true or false", t)
	}
	p := &program{source: source, fields: map[string]bool{}}
	problems := p.inspect(checked)
	if len(problems) > 0 {
		return nil, problems
	}
	usual, err := env.EstimateCost(checked, lengths(usualLength))
	if err != nil {
		return nil, whole("the cost of the expression cannot be estimated: %v", err)
	}
	most, err := env.EstimateCost(checked, lengths(mostLength))
	if err != nil {
		return nil, whole("the cost of the expression cannot be estimated: %v", err)
	}
	switch {
	case usual.Min > costLimit:
		return nil, whole("the expression always costs more than its limit; make it shorter, or use conditions")
	case usual.Max > costLimit:
		problems = append(problems, celProblem{line: 1, warning: true, whole: true,
			message: "the expression may exceed its cost limit when the arguments hold long lists or texts; such a call is " +
				"denied"})
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(interruptEvery)}
	if most.Max > costLimit { // what cannot exceed the limit need not be metered, which costs more than the rest
		options = append(options, cel.CostLimit(costLimit))
		p.metered = true
	}
	p.prog, err = env.Program(checked, options...)
	if err != nil {
		return nil, whole("%v", err)
	}
	return p, problems
}

// inspect notes what the expression selects and whether it loops, and refuses numbers that floating
// point cannot tell from their neighbours: comparing with them would not be exact.
func (p *program) inspect(checked *cel.Ast) []celProblem {
	var problems []celProblem
	native := checked.NativeRep()
	info := native.SourceInfo()
	p.looks = celLooks(native.Expr())
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind:
			p.fields[e.AsSelect().FieldName()] = true
		case ast.ComprehensionKind:
			p.loops = true
		case ast.LiteralKind:
			switch v := e.AsLiteral().(type) {
			case types.String: // args["name"] selects too
				p.fields[string(v)] = true
			case types.Double:
				written := ""
				if at, ok := info.GetOffsetRange(e.ID()); ok {
					written = numberAt(p.source, int(at.Start))
				}
				if !exactDouble(written, float64(v)) {
					loc := info.GetStartLocation(e.ID())
					problems = append(problems, celProblem{line: loc.Line(), column: loc.Column(),
						message: "this number cannot be compared exactly; write a whole number without fraction or exponent, or fewer " +
							"digits"})
				}
			}
		}
	}))
	return problems
}

// numberAt returns the number literal that begins at the given code point of source.
func numberAt(source string, at int) string {
	runes := []rune(source)
	if at < 0 || at >= len(runes) {
		return ""
	}
	s := string(runes[at:])
	end := 0
	for end < len(s) {
		c := s[end]
		signed := (c == '+' || c == '-') && (end == 0 || s[end-1] == 'e' || s[end-1] == 'E')
		if !signed && c != '.' && c != 'e' && c != 'E' && (c < '0' || c > '9') {
			break
		}
		end++
	}
	text := s[:end]
	if strings.HasPrefix(strings.TrimPrefix(text, "-"), ".") {
		text = strings.Replace(text, ".", "0.", 1)
	}
	return text
}

// exactDouble reports whether a float64 keeps its order among all numbers that expressions meet:
// doubles that are the shortest text of themselves, and whole numbers of 64 bits, which it must not
// be rounded against.
func exactDouble(written string, d float64) bool {
	if !decimal.IsNumber(written) || math.Abs(d) >= 1<<53 {
		return false
	}
	want, err := decimal.Parse(written)
	if err != nil {
		return false
	}
	got, err := decimal.Parse(strconv.FormatFloat(d, 'e', -1, 64))
	return err == nil && got.Compare(want) == 0
}

// lengths tells the estimator how long the values of a call may be.
type lengths uint64

func (l lengths) EstimateSize(cost.AstNode) *cost.SizeEstimate {
	return &cost.SizeEstimate{Min: 0, Max: uint64(l)}
}

func (lengths) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

var (
	errInexact   = errors.New("a number cannot be represented exactly")
	errNotBool   = errors.New("the expression is neither true nor false")
	errUndecoded = errors.New("the arguments cannot be decoded")
	errTooLong   = errors.New("the evaluation exceeded its limit")
)

// holds evaluates the expression. The error says why it has no value, without quoting arguments.
func (p *program) holds(e *evaluation) (bool, error) {
	var out ref.Val
	var err error
	if p.loops {
		// Not the caller's deadline: a verdict depends on the policy and the call alone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), celDeadline)
		defer cancel()
		out, _, err = p.prog.ContextEval(ctx, e)
	} else {
		out, _, err = p.prog.Eval(e)
	}
	if err != nil {
		return false, p.reason(err, e)
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, errNotBool
	}
	return bool(b), nil
}

// reason turns CEL's error into one that is safe to show: CEL's own may quote arguments.
func (p *program) reason(err error, e *evaluation) error {
	if errors.Is(err, errUndecoded) {
		return errUndecoded
	}
	if errors.Is(err, interpreter.InterruptError{}) {
		return errTooLong
	}
	if _, ok := errors.AsType[interpreter.EvalCancelledError](err); ok {
		return errTooLong
	}
	// CEL tells the rest apart by text alone. A key is repeated only if the rule itself names it.
	text := err.Error()
	if key, ok := strings.CutPrefix(text, "no such key: "); ok {
		if p.fields[key] {
			return fmt.Errorf("%q is missing; has() asks whether it is there", key)
		}
		return errors.New("a key is missing; has() asks whether it is there")
	}
	switch {
	case strings.HasPrefix(text, "no such overload") && e.args != nil && e.args.inexact:
		return errInexact
	case strings.HasPrefix(text, "no such overload"):
		return errors.New("an argument has a type that the expression cannot work with")
	case strings.HasPrefix(text, "division by zero"), strings.HasPrefix(text, "modulus by zero"):
		return errors.New("a division by zero")
	case strings.Contains(text, "overflow"):
		return errors.New("a number grew too large")
	}
	return errors.New("it has no value for these arguments")
}

// ResolveName gives expressions their variables.
func (e *evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case "method":
		return types.String(methodOf(e.call)), true
	case "tool":
		return types.String(toolOf(e.call)), true
	case "server":
		return types.String(e.call.Server), true
	case "agent":
		return types.String(e.call.Agent), true
	case "scope":
		return types.String(e.call.Scope), true
	case "session_id":
		return types.String(e.call.SessionID), true
	case "args":
		if e.args == nil {
			e.args = &object{e: e, args: e.call.Args}
		}
		return e.args, true
	}
	return nil, false
}

// Parent is part of CEL's Activation; there is none.
func (e *evaluation) Parent() interpreter.Activation { return nil }

// object is args as CEL sees them. It decodes only the members that an expression touches, and those
// once for all rules of a call; only an expression that takes args as a whole decodes them all.
type object struct {
	e       *evaluation
	args    args.Args
	found   map[string]ref.Val // nil for what is absent
	all     traits.Mapper
	inexact bool // a number was met that CEL cannot hold
}

func (o *object) whole() (traits.Mapper, ref.Val) {
	if o.all == nil {
		m, err := o.args.Decode()
		if err != nil {
			return nil, types.WrapErr(errUndecoded)
		}
		o.all = types.NewStringInterfaceMap(adapter{o}, m)
	}
	return o.all, nil
}

// Find returns the member of that name; a member's name is never taken for a path.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	if o.all == nil && strings.IndexByte(string(name), '.') < 0 {
		return o.member(string(name))
	}
	m, failed := o.whole()
	if failed != nil {
		return failed, false
	}
	return m.Find(name)
}

// member decodes the one member of that name, which has no dot, unless it was asked for before.
func (o *object) member(name string) (ref.Val, bool) {
	if v, ok := o.found[name]; ok {
		return v, v != nil
	}
	var raw jsontext.Value
	number, ok := o.e.names[name]
	if ok {
		raw, ok = o.e.members.get(number, o.e.names, o.args.Canonical())
	} else {
		raw, ok = o.args.Lookup(name)
	}
	var v ref.Val
	if ok {
		v = o.value(raw)
	}
	if o.found == nil {
		o.found = map[string]ref.Val{}
	}
	o.found[name] = v
	return v, ok
}

func (o *object) Contains(key ref.Val) ref.Val {
	v, ok := o.Find(key)
	if !ok && v != nil {
		return v
	}
	return types.Bool(ok)
}

func (o *object) Get(key ref.Val) ref.Val {
	v, ok := o.Find(key)
	switch {
	case ok:
		return v
	case v != nil:
		return v
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

func (o *object) Iterator() traits.Iterator {
	m, failed := o.whole()
	if failed != nil {
		return types.NewStringInterfaceMap(adapter{}, nil).Iterator()
	}
	return m.Iterator()
}

func (o *object) Size() ref.Val {
	m, failed := o.whole()
	if failed != nil {
		return failed
	}
	return m.Size()
}

func (o *object) Equal(other ref.Val) ref.Val {
	m, failed := o.whole()
	if failed != nil {
		return failed
	}
	if same, ok := other.(*object); ok {
		other, failed = same.whole()
		if failed != nil {
			return failed
		}
	}
	return m.Equal(other)
}

func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	m, failed := o.whole()
	if failed != nil {
		return nil, errUndecoded
	}
	return m.ConvertToNative(t)
}

func (o *object) ConvertToType(t ref.Type) ref.Val {
	m, failed := o.whole()
	if failed != nil {
		return failed
	}
	return m.ConvertToType(t)
}

func (o *object) Type() ref.Type { return types.MapType }
func (o *object) Value() any     { return o }

// value decodes one canonical JSON value.
func (o *object) value(raw jsontext.Value) ref.Val {
	switch raw.Kind() {
	case 'n':
		return types.NullValue
	case 't':
		return types.True
	case 'f':
		return types.False
	case '"':
		return types.String(newValue(raw).text)
	case '0':
		return o.number(string(raw))
	}
	v, err := decodeJSON(raw)
	if err != nil {
		return types.WrapErr(errUndecoded)
	}
	return adapter{o}.NativeToValue(v)
}

// number gives a JSON number to CEL so that every comparison comes out as for the decimals: whole
// numbers, however written, as integers of 64 bits, others as the double of which they are the
// shortest text, and what is neither as a value of its own.
func (o *object) number(token string) ref.Val {
	if n, err := strconv.ParseInt(token, 10, 64); err == nil {
		return types.Int(n)
	}
	d, err := decimal.Parse(token)
	if err == nil && d.IsInteger() {
		text := d.Integer()
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return types.Int(n)
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return types.Uint(n)
		}
	} else if f, err := strconv.ParseFloat(token, 64); err == nil && exactDouble(token, f) {
		return types.Double(f)
	}
	if o != nil {
		o.inexact = true
	}
	return inexact(token)
}

// inexact is a number that CEL has no type for. It equals itself and nothing that CEL can express;
// whatever else is asked of it is an error. It is no CEL error itself, because comparing lists and
// maps takes those for equal.
type inexact string

var inexactType = types.NewOpaqueType("inexact")

func (n inexact) Equal(other ref.Val) ref.Val {
	m, ok := other.(inexact)
	if !ok {
		return types.False
	}
	if n == m {
		return types.True
	}
	x, err := decimal.Parse(string(n))
	if err != nil {
		return types.False
	}
	y, err := decimal.Parse(string(m))
	return types.Bool(err == nil && x.Compare(y) == 0)
}

func (n inexact) ConvertToNative(reflect.Type) (any, error) { return nil, errInexact }
func (n inexact) Type() ref.Type                            { return inexactType }
func (n inexact) Value() any                                { return string(n) }

// ConvertToType says only that it is a number, so that type() can tell it from text.
func (n inexact) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return types.DoubleType
	}
	return types.WrapErr(errInexact)
}

// adapter turns decoded JSON into CEL values; o is nil in the environment, which has no numbers of
// its own.
type adapter struct{ o *object }

func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case ref.Val:
		return v
	case nil:
		return types.NullValue
	case string:
		return types.String(v)
	case bool:
		return types.Bool(v)
	case json.Number:
		return a.o.number(string(v))
	case []any:
		return types.NewList(a, v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

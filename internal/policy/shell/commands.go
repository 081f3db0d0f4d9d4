package shell

import (
	"errors"
	"path"
	"regexp"
	"strings"
)

// command is what a command on the list may be given. Left out of every entry is what can write, run a program or
// wait for ever, in any of the GNU, BSD and BusyBox versions, and what is seldom needed.
type command struct {
	short  string // flags of one letter,
	valued string // those of them with a value,
	stuck  string // those with a number in the same word, or none,
	long   string // and long ones: "name", "name=" with a value, "name?" with one or none
	words  string // flags that are words with one dash; "-name=" is followed by a value
	number bool   // -5 is a number
	apart  bool   // a flag's value is always the next word: what follows in the same one are more flags
	says   bool   // whatever follows is text that it prints

	most     int                           // operands that it may have, -1: as many as there are
	list     []string                      // flags with which it only lists, whatever the operands
	patterns bool                          // it only counts or lists what files are called: a shell may fill names in
	signs    bool                          // it is git's, and shows what may be signed
	also     func(g given, s string) error // what else must hold

	recursive bool     // it shows what is in all files of a folder
	recurses  []string // the flags with which it does
	pattern   bool     // the first operand is no path

	sub map[string]*command // the commands that it has, and nothing else
}

const many = -1

// The flags of commands that have many.
const (
	grepShort = "rRnilLcvwxEFPGohHsqaI"
	grepLong  = "recursive dereference-recursive line-number ignore-case files-with-matches files-without-match count " +
		"invert-match word-regexp line-regexp extended-regexp fixed-strings perl-regexp basic-regexp only-matching " +
		"no-filename with-filename no-messages quiet regexp= include= exclude= exclude-dir= context= after-context= " +
		"before-context= max-count= color? colour?"
	rgLong = "line-number no-line-number ignore-case smart-case case-sensitive files files-with-matches " +
		"files-without-match count count-matches invert-match word-regexp line-regexp fixed-strings only-matching " +
		"no-filename with-filename hidden no-ignore no-ignore-vcs multiline multiline-dotall pcre2 heading no-heading " +
		"column vimgrep json stats trim null no-messages quiet type-list regexp= glob= iglob= type= type-not= context= " +
		"after-context= before-context= max-count= max-depth= max-columns= sort= sortr= color="
	gitLog = "oneline graph all branches tags remotes stat shortstat numstat summary name-only name-status patch " +
		"no-patch merges no-merges first-parent follow reverse topo-order date-order left-right cherry-pick no-color " +
		"no-decorate abbrev-commit full-index raw no-ext-diff no-textconv no-renames ignore-all-space ignore-space-change " +
		"ignore-blank-lines patience minimal histogram find-renames? find-copies? word-diff? color? decorate? " +
		"since= until= after= before= author= committer= grep= date= max-count= skip= diff-filter= unified? " +
		"pretty? format= abbrev? diff-algorithm="
	gitDiff = "stat shortstat numstat summary name-only name-status patch no-patch cached staged check exit-code quiet " +
		"no-color no-ext-diff no-textconv no-renames ignore-all-space ignore-space-change ignore-blank-lines patience " +
		"minimal histogram merge-base full-index raw find-renames? find-copies? word-diff? color? " +
		"diff-filter= unified? abbrev? diff-algorithm="
	findWords = "-name= -iname= -path= -ipath= -wholename= -iwholename= -regex= -iregex= -type= -maxdepth= -mindepth= " +
		"-mtime= -mmin= -ctime= -cmin= -atime= -amin= -size= -newer= -user= -group= -perm= -printf= -empty -print -print0 " +
		"-prune -not -o -or -a -and -true -false -xdev -mount -depth -readable -executable -H -L -P"
)

// signedRE is what of a format, or of an order, has git run a program that checks signatures: %G with a letter, with
// one of the signs that may stand between, and fields of that name.
var signedRE = regexp.MustCompile(`%[-+ ]*G|signature`)

// formats are the flags that name a format, and namedFormats the names that git itself knows and nobody can give
// another meaning: any other one is looked up in its configuration, which may have it check signatures.
var (
	formats      = []string{"format", "pretty"}
	namedFormats = strings.Fields("oneline short medium full fuller reference email mboxrd raw")
)

// commands are the list.
var commands = map[string]*command{
	"pwd":      {short: "LP"},
	"true":     {},
	"false":    {},
	"whoami":   {},
	"uname":    {short: "asnrvmpo"},
	"date":     {short: "u", most: 1, also: dateFormat},
	"echo":     {says: true},
	"cd":       {most: 1, also: whereItIs},
	"which":    {short: "as", most: many},
	"basename": {short: "a", most: many},
	"dirname":  {most: many},
	"realpath": {most: many},
	"readlink": {short: "fen", most: many},
	"node":     onlyVersion("v"),
	"python":   onlyVersion("V"),
	"python3":  onlyVersion("V"),

	"ls": {short: "1AaBCcdFfGgHhikLlmnopqRrSstUuvx", most: many, patterns: true,
		long: "all almost-all directory recursive reverse human-readable inode size classify full-time " +
			"group-directories-first numeric-uid-gid no-group color? sort= time= time-style="},
	"tree": {short: "adfhiCsDF", valued: "LIP", apart: true, most: many, long: "gitignore dirsfirst noreport du"},
	"du": {short: "shackmxbL", valued: "d", most: many, patterns: true,
		long: "summarize human-readable all total apparent-size one-file-system max-depth="},
	"df":   {short: "hkTi", most: many},
	"find": {words: findWords, most: many},
	"stat": {short: "Lxts", valued: "cf", most: many, patterns: true, long: "dereference terse format= printf="},
	"file": {short: "bihLkI", most: many, long: "brief mime mime-type mime-encoding dereference"},
	"wc":   {short: "lwcmL", most: many, patterns: true, long: "lines words bytes chars max-line-length"},

	"cat":  {short: "nbsAeEtTvu", most: many, long: "number number-nonblank squeeze-blank show-all show-ends show-tabs"},
	"head": {short: "qv", valued: "nc", number: true, most: many, long: "lines= bytes= quiet verbose"},
	"tail": {short: "qvr", valued: "nc", number: true, most: many, also: ends, long: "lines= bytes= quiet verbose"},
	"nl":   {valued: "bws", most: many},
	"sed":  {short: "n", most: many, also: printsLines},
	"cut": {short: "s", valued: "dfcb", most: many,
		long: "delimiter= fields= characters= bytes= complement only-delimited output-delimiter="},
	"tr":   {short: "cCds", most: 2, long: "delete squeeze-repeats complement"},
	"uniq": {short: "cdui", long: "count repeated unique ignore-case"}, // its second operand is written
	"sort": {short: "nrufhVbdgiMsc", valued: "kt", most: many,
		long: "numeric-sort reverse unique ignore-case human-numeric-sort version-sort stable check key= field-separator="},
	"jq": {short: "rcMSsena", most: many, also: fromInput,
		long: "raw-output compact-output sort-keys slurp exit-status null-input tab"},
	"diff": {short: "uqwbBiy", valued: "U", most: 2, also: comparesInside,
		long: "unified? brief ignore-all-space ignore-case side-by-side color?"},
	"cmp": {short: "sl", most: 2},
	"grep": {short: grepShort, valued: "eABCm", long: grepLong, number: true, most: many, pattern: true,
		recurses: []string{"-r", "-R", "--recursive", "--dereference-recursive"}},
	"rg": {short: "nNilcvwxFSsoUPHIu0", valued: "egtTABCmM", long: rgLong, most: many, pattern: true, recursive: true},

	"git": {sub: gitCommands},
}

var gitCommands = map[string]*command{
	"status": {short: "sb", most: many,
		long: "short branch long show-stash ahead-behind ignored? porcelain? untracked-files?"},
	"log":  {short: "pswbiEFPRMC", valued: "nSGL", stuck: "U", number: true, long: gitLog, most: many, signs: true},
	"show": {short: "pswbM", valued: "n", stuck: "U", number: true, long: gitLog, most: many, signs: true},
	"diff": {short: "pswbRMC", stuck: "U", long: gitDiff, most: many, also: comparesInside},
	"blame": {short: "wCMesl", valued: "L", most: many, long: "porcelain line-porcelain show-email show-name " +
		"show-number date= abbrev? root"},
	"branch": {short: "arv", long: "all remotes verbose list show-current no-color sort= no-column color?",
		list: []string{"--list"}, signs: true},
	"tag":      {short: "l", long: "list sort= no-column", list: []string{"-l", "--list"}, signs: true},
	"remote":   {short: "v", long: "verbose"},
	"stash":    {most: 1, also: onlyOperand("list")},
	"worktree": {most: 1, also: onlyOperand("list")},
	"reflog":   {valued: "n", number: true, long: "oneline date= max-count="},
	"rev-parse": {most: many, long: "show-toplevel show-prefix git-dir git-common-dir " +
		"is-inside-work-tree is-bare-repository abbrev-ref? short? verify quiet symbolic-full-name all"},
	"rev-list": {valued: "n", number: true, most: many,
		long: "count all max-count= since= until= no-merges merges first-parent left-right"},
	"merge-base": {short: "a", most: many, long: "all is-ancestor"},
	"ls-files": {short: "cdmosktuz", most: many,
		long: "cached deleted modified others stage exclude-standard full-name error-unmatch unmerged killed"},
	"ls-tree":  {short: "rdltz", most: many, long: "name-only name-status full-name full-tree long"},
	"cat-file": {short: "tspe", most: 2},
	"describe": {most: many, long: "tags all always long abbrev? match="},
	"grep": {short: "niwlLcvEFGPohHI", valued: "eABCm", long: "line-number ignore-case word-regexp files-with-matches " +
		"count invert-match extended-regexp fixed-strings perl-regexp only-matching cached untracked heading break " +
		"no-color color? max-depth= max-count= context=", most: many, pattern: true, recursive: true},
}

// onlyVersion is a program that is asked for its version and nothing else.
func onlyVersion(short string) *command {
	return &command{short: short, long: "version", also: func(g given, _ string) error {
		if len(g.flags) == 0 {
			return errors.New("it may run a program")
		}
		return nil
	}}
}

// onlyOperand is for a command of git that only reads with this word after it.
func onlyOperand(word string) func(given, string) error {
	return func(g given, _ string) error {
		if len(g.operands) != 1 || g.operands[0] != word {
			return errors.New("it does more than list")
		}
		return nil
	}
}

// dateFormat: without a format, date sets the clock.
func dateFormat(g given, _ string) error {
	if len(g.operands) > 0 && !strings.HasPrefix(g.operands[0], "+") {
		return errors.New("it may set the clock")
	}
	return nil
}

// whereItIs: cd may only name the folder that the call runs in. What comes after it, and with some agents the
// next call, runs elsewhere otherwise, where git may meet another configuration.
func whereItIs(g given, scope string) error {
	if len(g.operands) != 1 || !strings.HasPrefix(g.operands[0], "/") || path.Clean(g.operands[0]) != path.Clean(scope) {
		return errors.New("it leads to another folder than that of the call")
	}
	return nil
}

// printedRE is a script of sed that prints lines by their numbers; most other letters write or run.
var printedRE = regexp.MustCompile(`^[0-9]+(,([0-9]+|\$))?p$`)

func printsLines(g given, _ string) error {
	if !g.has("-n") || len(g.operands) == 0 || !printedRE.MatchString(g.operands[0]) {
		return errors.New("it is not of the form sed -n '1,20p'")
	}
	return nil
}

// ends: BSD's tail takes +5f for a flag, too, with which it waits for more.
func ends(g given, _ string) error {
	if len(g.operands) > 0 && strings.HasPrefix(g.operands[0], "+") {
		return errors.New("it may wait for ever")
	}
	return nil
}

// outsideRE is what a program of jq reads beside its input: the environment, and files that it names itself.
var outsideRE = regexp.MustCompile(`(^|[^.\w])(env|ENV|import|include|modulemeta)\b`)

func fromInput(g given, _ string) error {
	if len(g.operands) > 0 && outsideRE.MatchString(g.operands[0]) {
		return errors.New("it may read the environment, or files that its program names")
	}
	return nil
}

// comparesInside: where an operand is a folder, diff shows files in there that it does not name. So does git's, which
// takes two paths for files of no repository where one of them lies outside.
func comparesInside(g given, scope string) error {
	if len(g.operands) > 0 && (isWide(scope) || elusive(scope, "")) {
		return errors.New("it may show what lies in a whole disk or home folder")
	}
	for _, o := range g.operands {
		if !inside(o, scope) {
			return errors.New("it may show files that it does not name, outside of the folder that it runs in")
		}
	}
	return nil
}

package shell_test

import (
	"slices"
	"strings"
	"testing"

	"countersign/internal/policy/shell"

	"mvdan.cc/sh/v3/syntax"
)

const scope = "/home/u/src/app"

// What agents read all day passes.
func TestPlainWordsOfReadOnlyCommandsPass(t *testing.T) {
	for _, line := range []string{
		"ls", "ls -la", "ls -la src/", "ls *.go", "ls -1 src/*.ts | wc -l", "pwd", "pwd && ls", "ls; pwd;",
		"cat README.md", "cat -n 'a file.txt'", `cat "a file.txt"`, "cat a b c | head -n 20", "cat ~/notes.txt",
		"head -20 go.mod", "head -n 20 go.mod", "head --lines=20 go.mod", "tail -n +5 x.log", "tail -100 x.log",
		"sed -n '1,200p' main.go", "sed -n 5p main.go", "sed -n '10,$p' main.go", "nl -ba main.go | sed -n '1,20p'",
		"wc -l main.go", "wc -l src/*.go", "stat main.go", "stat -c '%n %s' main.go", "file -b main.go", "du -sh .",
		"du -d 1 .", "tree -L 2", "df -h", "which go node", "basename /a/b.go", "dirname a/b", "realpath .", "readlink -f x",
		"grep -rn TODO .", "grep -rn 'func main' --include='*.go' .", `grep -n "foo\|bar" x.go`, "grep -c x a.txt",
		"grep -r foo src lib", "grep -rn foo /home/u/src/app/lib", "grep -e foo -e bar x", "grep -A 3 -B2 foo x",
		"grep -i --color=never x y || true", "rg TODO", "rg -n 'fn main' src", "rg --files",
		"rg --files -g '*.go' | head -50",
		"rg -l foo --type go", "rg -C3 foo src", "rg -n foo /home/u/src/app", "rg --glob='!vendor' foo",
		"find . -name '*.go'", "find . -type f -name '*.go' -not -path './vendor/*'", "find src -maxdepth 2 -type d | sort",
		"find . -mtime -7 -type f", "find . '(' -name a -o -name b ')' -print", "find . -size +1M",
		"git status", "git status --short --branch", "git status --porcelain=v2", "git log --oneline -5",
		"git log -n 3 --stat",
		"git log -p -1 -- main.go", "git log --since='2 weeks ago' --author=hana", "git --no-pager log -5",
		"git log --format='%h %s'", "git log --pretty=fuller", "git log --format='%w(72)%+b%-d' -1", "git log main..HEAD",
		"git diff", "git diff --stat HEAD~1", "git diff --cached",
		"git diff HEAD^ -- src", "git show HEAD", "git show HEAD:go.mod", "git show --stat HEAD~2", "git branch",
		"git branch -a",
		"git branch -vv", "git branch --show-current", "git branch --list 'feature/*'", "git rev-parse HEAD",
		"git rev-parse --show-toplevel", "git rev-parse --abbrev-ref HEAD", "git ls-files", "git ls-files -m src",
		"git blame -L 1,20 main.go", "git remote -v", "git stash list", "git tag -l", "git tag", "git merge-base main HEAD",
		"git grep -n foo -- src", "git worktree list", "git cat-file -p HEAD", "git describe --tags", "git reflog -5",
		"sort -u a.txt", "sort -k 2 -n a.txt | uniq -c | sort -rn | head -10", "cut -d: -f1 x", "cut -d ' ' -f 2 x",
		"tr -d '\"' </dev/null", "cat x | tr a-z A-Z", "jq . package.json", "jq -r '.scripts | keys[]' package.json",
		"diff -u a b", "diff -u a/x.go /home/u/src/app/b/x.go", "git diff main..HEAD -- /home/u/src/app/src",
		"git diff origin/main...HEAD src", "git diff HEAD:../a HEAD:a", "jq '.env' x", "jq . env/env.json",
		"jq '.scripts.env, .environment' x", "git show HEAD^", "git diff HEAD^2~1 a", "git log -U1 -p", "git diff -U5 a",
		"git diff --unified=5",
		"tree -dL 2 src", "tree -I node_modules", "cat a/~b", "cmp a b", "echo hello", "echo '--- a'", "echo -n", "date",
		"date +%F", "date -u '+%F %T'", "whoami",
		"uname -a", "node --version", "python3 --version", "ls nothing 2>/dev/null", "ls nothing 2>&1 | head -5",
		"ls >/dev/null 2>&1 && echo there", "cd /home/u/src/app && git status", "ls -- a", "ls ''",
	} {
		if err := shell.ReadOnly(line, scope); err != nil {
			t.Errorf("%s\nis read as: %v", line, err)
		}
	}
}

// Whatever writes, runs something else, leads elsewhere or cannot be read for certain does not.
func TestEvasionsDoNotPass(t *testing.T) {
	for why, lines := range map[string][]string{
		"other commands": {
			"rm -rf .", "mv a b", "cp a b", "touch a", "mkdir a", "chmod +x a", "make", "npm test", "go test ./...", "go env",
			"curl https://example.com", "tee a", "cat a | tee b", "dd if=a of=b", "ln -s a b", "kill 1", "printf x", "less a",
			"more a", "vim a", "man ls", "awk '{print}' a", `awk 'BEGIN{system("rm a")}'`, `awk '{print > "b"}' a`, "perl -e 1",
			"python3 x.py", "python3 -c 'x'", "node x.js", "node -e 1", "node --version x.js", "node", "sh", "bash -c ls",
			"yarn --version",
		},
		"a second command": {
			"ls; rm a", "ls && rm a", "ls || rm a", "ls | sh", "ls & rm a", "ls &", "ls |& cat", "ls\nrm a", "ls\n",
			"ls\r\nrm a",
			"ls;rm${IFS}a", "true&&rm a", "cat a | xargs rm", "ls |rm a", "ls ;; rm", "echo x; : > a", "pwd -P; source x",
			"ls &! rm a", "ls &| rm a",
		},
		"substitution": {
			"ls $(rm a)", "ls `rm a`", `ls "$(rm a)"`, "ls \"`rm a`\"", "echo $HOME", `echo "$HOME"`, "echo ${x:=y}",
			"cat <(rm a)",
			"cat >(rm a)", "cat =(rm a)", "cat =ls", "echo $((x=1))", "echo $[x=1]", "ls$IFS-la", "cat $1", "echo ${~x}",
			"echo $'a'",
			`echo $"a"`, "cat $'\\x2f'etc", `grep "a\$b" x`, `echo "\\"`, `echo "a!b"`, "echo !!", "ls ~root", "ls ~+",
			"cat a=~/b", "echo ${ rm a;}",
		},
		"words in pieces": {
			`r""m a`, `'rm' a`, `"ls"`, `'ls' -la`, `\ls`, `l\s`, `cat .cl'au'de/settings.json`, `cat "a"'b'`, `cat a"b"`,
			`cat ''a`,
			"/bin/ls", "./ls", "../ls", "LS", "ls\\\n-la", "{ls,-la}", "cat {a,b}", "cat a{1..3}", "c?t a", "l* a", "[ -f a ]",
			"[[ -f a ]]",
		},
		"patterns where names could be flags or hide a file": {
			"cat *", "cat ~/.config/c*/*.env", "cat .clau?e/settings.json", "cat [a]", "sort *", "rg x *", "grep x *", "tree *",
			"file *", "ls --*", "ls -*", "find *", "git diff *", "head **/*", "uniq *", "cat @(a|b)", "ls *(e:'rm a':)",
			"ls a(N)", "cat a<1-2>",
		},
		"redirections": {
			"ls > a", "ls >> a", "ls >| a", "ls >a", "ls 2>a", "ls &> a", "ls &>/dev/null", "ls >& a", "cat < a", "cat <<< a",
			"cat <<E",
			"cat <<E\nx\nE", "ls >/dev/null > a", "ls > /dev/null/../a", "ls >/dev/sda", "ls 3>/dev/null", "ls {x}>/dev/null",
			"ls >&1",
			"ls <> a", "ls > '/dev/null'a", "> a", "2>&1", ">/dev/null", "ls 1>&3", "exec 2>&1", "ls > $x", "ls >/dev/tcp/h/1",
			"ls >&!a", "ls > *",
		},
		"assignments and environment": {
			"X=1 ls", "X=1", "GIT_PAGER=rm git log", "PATH=. ls", "LD_PRELOAD=x ls", "export X=1", "declare X=1", "X+=1 ls",
			"x[0]=1",
			"env ls", "env X=1 ls", "printenv", "set -x", "unset X", "alias ls=rm", "readonly x", "local x", "typeset x",
			"read x", "let x=1",
		},
		"commands that run others": {
			"eval ls", "exec ls", "source a", ". a", "command ls", "builtin pwd", "time ls", "nohup ls", "sudo ls", "xargs ls",
			"nice ls",
			"timeout 5 ls", "watch ls", "strace ls", "busybox ls", "doas ls", "noglob ls", "nocorrect ls", "- ls", "coproc ls",
			"repeat 3 ls",
			"trap ls EXIT", "! ls", "(ls)", "{ ls; }", "if ls; then ls; fi", "for i in a; do ls; done", "while ls; do ls; done",
			"f() { ls; }",
			"function f { ls; }", "case a in a) ls;; esac", "select x in a; do ls; done", "((1))", "() { rm a }",
		},
		"flags that write or run": {
			"find . -exec rm {} +", "find . -exec rm '{}' ';'", "find . -execdir x", "find . -delete", "find . -ok rm",
			"find . -okdir rm",
			"find . -fprint a", "find . -fprintf a x", "find . -fls a", "find . -fprint0 a", "find . -name",
			"find . -files0-from a",
			"sort -o a b", "sort b -oa", "sort --output=a b", "sort --out=a b", "sort -uo a b", "sort --compress-program=x a",
			"sort -T /x a", "sort b -- -o a",
			"uniq a b", "uniq a", "sed -i s/a/b/ x", "sed 's/a/b/w x' y", "sed -n '1e rm a' x", "sed -n 's/a/b/e' x",
			"sed -n '1,5p;w a' x",
			"sed --in-place -n 1p x", "sed -n 1p -i x", "sed -f x", "sed -n -e 1p x", "sed 1p x", "sed -n 1w x",
			"rg --pre cat x", "rg --pre=cat x", "rg -z x", "rg --search-zip x", "rg --hostname-bin=x y", "rg -f a", "rg -L x",
			"rg --follow x",
			"grep -f a b", "grep -z a b", "tail -f a", "tail -F a", "tail --follow=name a", "tail --pid=1 a", "tail +5f a",
			"tail +F a", "tail -fn 5 a", "tail -5f a",
			"tree -o a", "tree -R -L 1", "file -C -m a", "file -m a b", "file -z a", "du --files0-from=a", "diff --to-file=a b",
			"diff -N a b", "diff -l a b",
			"date -s 10:00", "date 01010101", "date --set=x", "jq -f a b", "jq -L . x", "jq --rawfile a b .",
			"which --read-alias ls", "uname -x",
			"grep -r -d recurse x", "date -f a", "ls --hyperlink", "cat --help=x", "wc --files0-from=a", "true a", "pwd a",
			"uname a", "stat -f",
		},
		"git that does more than read": {
			"git", "git commit -m x", "git add .", "git checkout .", "git push", "git fetch", "git pull",
			"git -c core.pager=x log",
			"git -C /tmp status", "git --exec-path=x status", "git --git-dir=x log", "git --work-tree=x status", "git -p log",
			"git --paginate log",
			"git --config-env=a=b log", "git --no-pager -c a=b log", "git --no-pager --no-pager log", "git log --output=x",
			"git log --output x", "git log --outp=x", "git diff --output=x", "git diff --no-index a b",
			"git diff --ext-diff", "git diff --textconv", "git log --ext-diff", "git show --textconv",
			"git log --show-signature", "git log --format='%G?'",
			"git log --pretty=format:%GS", "git log --format='%+G?'", "git log --format='%-GK'", "git log --format='% GF'",
			"git show --pretty='tformat:%h%+GG'", "git log --format='%<(20)%GP'", "git log --format=mine",
			"git log --pretty=mine", "git log --pretty=format", "git log --format mine", "git log --pretty=onelin",
			"git log --format='%h%(signature)'", "git -c log.showSignature=true log", "git -c pretty.x=%G? log",
			"git log --format '%G?'", "git diff -O x", "git diff --no-index --output=a b c", "git grep -O x",
			"git grep --open-files-in-pager=rm x", "git grep -Orm x", "git grep --no-index x /",
			"git branch newname", "git branch -d x", "git branch -D x", "git branch -m x", "git branch -v newname",
			"git branch --set-upstream-to=x",
			"git branch --edit-description", "git branch -a newname", "git tag v1", "git tag -d v1", "git tag -v v1",
			"git tag --sort=x v1", "git remote add a b", "git remote show origin",
			"git remote update", "git stash", "git stash pop", "git stash list --output=x", "git reflog expire --all",
			"git reflog delete x", "git worktree add x",
			"git worktree", "git config --list", "git config a b", "git cat-file --textconv HEAD:a",
			"git cat-file --filters HEAD:a", "git rev-parse --parseopt", "git show --remerge-diff",
			"git describe --dirty", "git bisect run x", "git submodule foreach ls", "git st", "git difftool", "git help log",
			"git archive HEAD", "git blame --contents a b", "git ls-files -X a", "git s*",
			"git log --exec=x", "git ls-remote", "git rebase -x ls", "git hook run x", "git daemon",
			"git --version --exec-path=x", "git --html-path",
		},
		"searching elsewhere": {
			"grep -r TOKEN ~", "grep -r TOKEN ~/.config", "grep -rn TOKEN /", "grep -R x /home/u", "grep -r x ..",
			"grep -r x a/../../..",
			"grep --recursive x /home/u", "grep -re x /home/u", "grep -r x /home/u/src/application", "rg TOKEN /home/u",
			"rg TOKEN ..", "rg --files ~/.config", "rg -e x /home/u", "rg --files /etc",
			"git grep x -- ../..", "cd /tmp && ls", "cd ..", "cd", "cd -", "cd sub && git status", "cd ~ && grep -r x .",
			"pushd /tmp",
		},
		"what is no file": {
			"cat /proc/self/environ", "cat /proc/1/environ", "cat //proc/1/environ", "cat /./proc/1/environ",
			"cat ../../../../../proc/1/environ",
			"cat /x/../proc/1/environ", "head -c 1 /dev/mem", "cat /dev/tty", "cat ~/../proc/1/environ",
			"cat ~/../../proc/1/environ", "cat ~/x/../../dev/mem", "ls /proc/1/fd", "grep x /PROC/1/environ",
			"grep x -- /proc/1/environ", "cat /sys/x",
		},
		"what a program says beside its input": {
			"jq -n env", "jq -n '$ENV'", "jq -n '$ENV.TOKEN'", "jq -n '$ ENV.TOKEN'", "jq -r '.a|env.TOKEN' x",
			`jq -n '"\(env.TOKEN)"'`,
			`jq -n 'import "auth" as $d {search:"~/.codex"}; $d'`, `jq -n 'include "a"; b'`, "jq -n '[env][]'",
		},
		"flags of which a program reads more than it seems": {
			"tree -Po x out", "tree -Io x out", "tree -Lo 2 out", "tree -dPo x out", "tree -LI 2 x",
			"git diff -U /proc/self/environ a", "git diff --unified /proc/self/environ a",
			"git log --abbrev /proc/self/environ", "git show -U /proc/self/environ", "git diff -U3O/x",
			"git tag --sort=signature:key", "git tag -l --sort signature",
		},
		"files that are not named": {
			"cat countersign.^x", "cat ~/a/b.^x", "git diff ~/a/b.^x a", "head a^b", "diff .env ~/.config/countersign",
			"diff ~/.config/countersign .env", "diff -u .env ../x", "diff x/countersign ~/.config/countersign",
			"git diff src ~/.config/countersign", "git diff src ../out", "git diff -- /etc/countersign src",
			"git diff a/../../out src",
		},
		"characters": {
			"ls\x00", "ls\ta", "ls\u00a0-la", "ls\u2003a", "cat 'a\u200bb'", "cat '\u202ea'", "ls\x1b[A", "cat \xff", "ls\va",
			"ls\u2028rm a", "cat é", "ls # x", "ls #", "#", "", " ", ";",
			"ls '", `ls "`, "ls (", "ls )", "ls | ", "&& ls", "| ls", "ls ^a", "echo " + strings.Repeat("a", 9000),
			strings.Repeat("ls;", 60),
		},
	} {
		for _, line := range lines {
			if shell.ReadOnly(line, scope) == nil {
				t.Errorf("%s: %q passes", why, line)
			}
		}
	}
}

// A search by the whole path of a folder passes only below where the call runs, and nowhere where that is not known.
func TestSearchesStayInTheFolderOfTheCall(t *testing.T) {
	for _, c := range []struct {
		line, scope string
		passes      bool
	}{
		{"rg x /a/b", "/a", true}, {"rg x /a", "/a", true}, {"rg x /a/./b/", "/a/", true}, {"rg x /ab", "/a", false},
		{"rg x /a/../b", "/a", false}, {"rg x /a", "", false}, {"rg x /a", "/", false}, {"rg x a", "", true},
		{"cd /a && ls", "/a/", true}, {"rg x", "/home/u", false}, {"rg x", "/home/u/.", false}, {"rg x", "/home/./u", false},
		{"rg x", "/home/u/src/..", false}, {"rg x", "/home/u//./", false}, {"rg x", "/.", false},
		{"git diff e .config/countersign", "/home/u/.", false}, {"grep -rn x .", "/root/", false}, {"git grep x", "/", false},
		{"grep x a", "/home/u", true}, {"rg x src", "/root/src", true},
		{"cat proc/1/environ", "/", false}, {"cat 1/environ", "/proc", false}, {"rg x", "/proc/1", false},
		{"git diff e .config/countersign", "/home/u", false}, {"git diff --stat", "/home/u", true},
		{"cat a/x", "/proj", true}, {"cd /a", "", false}, {"cat /b/x", "/a", true},
	} {
		if err := shell.ReadOnly(c.line, c.scope); (err == nil) != c.passes {
			t.Errorf("%s in %q: %v", c.line, c.scope, err)
		}
	}
}

// A command that is given as words has no shell, unless the words call one.
func TestWordsAreReadAsTheyAre(t *testing.T) {
	for _, words := range [][]string{
		{"ls", "-la"}, {"cat", "$(rm a)"}, {"grep", "-n", "a;b", "x"}, {"cut", "-d", " ", "-f", "1", "x"},
		{"bash", "-lc", "ls | wc -l"}, {"/bin/zsh", "-c", "ls"},
		{"cat", "*"},
	} {
		if err := shell.ReadOnlyArgs(words, scope); err != nil {
			t.Errorf("%q: %v", words, err)
		}
	}
	for _, words := range [][]string{
		nil, {}, {""}, {"rm", "a"}, {"/bin/ls"}, {"bash", "-lc", "rm a"}, {"bash", "-lc", "ls", "x"}, {"bash", "x.sh"},
		{"bash", "-i", "ls"},
		{"sh", "-c"}, {"env", "ls"}, {"find", ".", "-delete"}, {"ls;rm a"}, {"cat", "a\nb"}, {"cat", "a\x00"},
		{"pwsh", "-c", "ls"}, {"cmd", "/c", "dir"},
	} {
		if shell.ReadOnlyArgs(words, scope) == nil {
			t.Errorf("%q pass", words)
		}
	}
}

// FuzzReadOnly: in whatever shell's words, what passes is made of calls of plain words, joined and nothing else; and
// printed and read again it still is.
func FuzzReadOnly(f *testing.F) {
	for _, line := range []string{
		"ls -la | head -5", "cat 'a b' && git log --oneline -3 2>/dev/null", "rg -n 'x' src; pwd", "ls $(rm a)",
		"find . -name '*.go' -exec rm {} +",
		"sort -o a b", "cat <<E\nE", "X=1 ls", "git -c a=b log", "ls >/dev/null 2>&1 || echo no", "ls\nrm a", "cat =ls",
		"sed -n '1,5p' x",
		"echo \"a\\.b\"", "ls a(N)", "cat <1-5>", "git show HEAD~1:a.go", "{ ls; }", "ls &| rm a", "r\"\"m a",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if shell.ReadOnly(line, "/s") != nil {
			return
		}
		if strings.ContainsAny(line, "\n\r\x00\t") {
			t.Fatalf("%q passes", line)
		}
		for _, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangZsh, syntax.LangPOSIX, syntax.LangMirBSDKorn} {
			file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(line), "")
			if err != nil {
				t.Fatalf("%q passes, and %s cannot read it: %v", line, lang, err)
			}
			plain(t, line, file)
			var printed strings.Builder
			if err := syntax.NewPrinter(syntax.SingleLine(true)).Print(&printed, file); err != nil {
				t.Fatal(err)
			}
			again := strings.TrimSpace(printed.String())
			if strings.Contains(again, "\n") { // the printer gives some lists a line each
				again = strings.ReplaceAll(again, "\n", "; ")
			}
			if err := shell.ReadOnly(again, "/s"); err != nil {
				t.Fatalf("%q passes, and printed as %q does not: %v", line, again, err)
			}
		}
	})
}

// plain fails where a file has more than calls of words that stand for themselves.
func plain(t *testing.T, line string, file *syntax.File) {
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case nil, *syntax.File, *syntax.Word, *syntax.Lit:
		case *syntax.Stmt:
			if n.Negated || n.Background || n.Coprocess || n.Disown {
				t.Fatalf("%q passes with %+v", line, n)
			}
		case *syntax.BinaryCmd:
			if !slices.Contains([]syntax.BinCmdOperator{syntax.AndStmt, syntax.OrStmt, syntax.Pipe}, n.Op) {
				t.Fatalf("%q passes with %s", line, n.Op)
			}
		case *syntax.CallExpr:
			if len(n.Assigns) > 0 || len(n.Args) == 0 || slices.Contains([]string{"rm", "eval", "env", "exec", "xargs", "sh"},
				n.Args[0].Lit()) {
				t.Fatalf("%q passes with a call of %s", line, n.Args[0].Lit())
			}
		case *syntax.SglQuoted:
			if n.Dollar {
				t.Fatalf("%q passes with $''", line)
			}
		case *syntax.DblQuoted:
			if n.Dollar {
				t.Fatalf(`%q passes with $""`, line)
			}
		case *syntax.Redirect:
			if n.Hdoc != nil || !slices.Contains([]string{"/dev/null", "1", "2", ""}, n.Word.Lit()) {
				t.Fatalf("%q passes with a redirection", line)
			}
		default:
			t.Fatalf("%q passes with a %T", line, n)
		}
		return true
	})
}

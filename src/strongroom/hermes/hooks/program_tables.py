"""Tables of programs: which only show names, which cannot read a directory tree, and which run other programs.

A program that is in no table is assumed to read everything that it is given, and directories with everything in them.
"""

from __future__ import annotations

import re


def names(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


LISTING = names(
    "ls dir vdir exa eza lsd tree du df stat file test [ [[ cd pushd popd pwd dirs echo printf basename dirname "
    "realpath readlink findmnt mountpoint which whereis type hash mkdir rmdir touch find fd fdfind locate true "
    "false : sleep date seq tr expr kill ps id whoami hostname uname export local declare typeset readonly unset "
    "set shift let read mapfile readarray return exit break continue case for select trap umask ulimit getopts "
    "wait jobs alias getfacl lsattr journalctl systemctl service pgrep namei command builtin exec env xargs "
    "hermes history dig man getconf numfmt"
)
"""Programs that show only names, sizes and existence, or handle only words. They read no file below a directory."""

SHOWING = names("ls dir exa eza lsd tree du stat test [ [[ echo printf for select")
"""Programs that read only names if they are given `DIR/*`."""

FLAT = names(
    "cat bat head tail less more wc nl tac rev cut paste join sort uniq comm column fold fmt sed awk gawk mawk "
    "nawk jq yq xxd od hexdump hd base64 base32 strings md5sum sha1sum sha256sum sha512sum cksum b2sum tee split "
    "truncate dd source . vi vim nvim nano emacs ed curl wget unzip gunzip gzip zcat xz touch patch cmp iconv cp "
    "grep egrep fgrep zgrep chmod chown chgrp rm scp diff setfacl install gh pip pip3 python python3 node deno "
    "bun ruby perl php lua sh bash zsh dash ksh ssh sqlite3 psql awk kubectl"
)
"""Programs that read single files. They do not read the files in a directory, except with an option in RECURSIVE."""

RECURSIVE = {
    **dict.fromkeys(
        ("cp", "scp", "rm", "grep", "egrep", "fgrep", "zgrep", "diff"),
        re.compile(r"-\w*[rRa]|--(?:r|a|deref|dir)|-d$"),
    ),
    **dict.fromkeys(("gzip", "gunzip", "xz"), re.compile(r"-\w*r|--r")),
    "php": re.compile(r"-[St]"),
    "ruby": re.compile(r"-run"),
    "kubectl": re.compile(r"cp$"),
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl"), re.compile(r"-\w*R|--recursive")),
}

SEARCHERS = frozenset(
    ("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "sed", "awk", "gawk", "mawk", "nawk", "jq", "yq", "tr")
)
"""Programs whose first operand is a pattern or a script and not a file. An option can give the pattern instead."""
PATTERN_OPTION = re.compile(r"-\w*[ef]$|--(?:regexp|file|expression|from-file)\b")

WHOLE_CWD = frozenset(("rg", "ag", "ack", "http-server", "serve"))
"""Programs that read the working directory if no file is named."""

MOVERS = frozenset(("cp", "mv", "scp", "rsync", "install", "ln"))
"""Programs whose last operand is the target of a copy, a move or a link."""

NAME_TAKERS = frozenset(("cpio", "pax", "parallel"))
"""Programs that read file names from stdin. The option NAMES_OPTION makes other programs do so."""
NAMES_OPTION = re.compile(r"-T|-@|--(?:files-from|paths-from-stdin|null|from-stdin)\b.*")

LATER = frozenset(("at", "batch", "crontab"))
"""Programs that run the text on stdin at a later time."""
CRON = re.compile(r"(?m)^(?:@\w+|(?:\S+[ \t]+){4}\S+)[ \t]+(?=\S)")
BANG = re.compile(r"(?:^|[:=;+\n])[ \t]{0,8}+(?:\\?!|[.]?(?:shell|system)[ \t])[ \t]{0,8}+(.+)", re.DOTALL)
"""The forms in which git, vim, database clients and others write a shell command in an argument."""
RUN_OPTION = re.compile(
    r"(-[a-zA-Z]*[cexIPE]$|--?(?:[\w-]{0,40}-)?(?:exec|eval|execute|command|cmd|shell|rsh|pager|editor|action|run|"
    r"use-compress-program|tree-filter|index-filter|msg-filter|env-filter)(?:=|$))(.*)",
    re.DOTALL,
)
"""Options whose value many programs run, as shell text or in a language of their own."""
RUN_VARIABLE = re.compile(r"\w{0,64}(?:COMMAND|CMD|EDITOR|PAGER|VISUAL|BROWSER|ASKPASS|LESSOPEN)")
"""Variables whose value other programs run."""
KEYED = re.compile(r"[A-Za-z][\w.-]{0,64}=")
COMMAND_READERS = names("sftp lftp ftp sqlite3 psql mysql gdb")
"""Programs that read commands in their own language from stdin. Some of these commands run shell commands."""
SED_RUNS = re.compile(r"(?:^|[;\n\d$/}])e[ \t]{1,8}+(.+)", re.DOTALL)

DIRECTORY = re.compile(r"(?:-C|--directory|--chdir)(?:=?(.+))?$")
"""The option with which the programs in GOES change the directory before they work."""
GOES = names("tar gtar bsdtar git make gmake ninja env")

WRAPPERS = names(
    "sudo doas env nice nohup timeout gtimeout stdbuf time command builtin exec setsid ionice chrt unbuffer "
    "busybox toybox flock caffeinate proot firejail bwrap strace ltrace catchsegv chronic torsocks proxychains "
    "taskset runuser uvx pipx uv run npx poetry pdm hatch direnv dotenv winpty faketime unshare nsenter "
    "systemd-run systemd-inhibit parallel"
)
"""Programs that run the command after their own options."""
WITH_VALUE = re.compile(
    r"-[ugnkosieCpPcj]|--(?:user|group|chdir|signal|kill-after|with|from|python|spec|project|directory|jobs)"
)
"""Options of the programs in WRAPPERS whose value is the next word."""
WRAPPED = re.compile(r"\d[\w.]*|\w+=.*|run|exec|tool|--|-.*", re.DOTALL)
"""Words that a program in WRAPPERS may have before the command that it runs.

Such a word is a number, an assignment, a verb of the program, or an option.
"""

SHELLS = names("sh bash zsh dash ksh mksh ash fish rbash")
PYTHONS = re.compile(r"(?:python|pypy)[\d.]*")
WITH_PYTHON_VALUE = re.compile(r"-[WX]|--check-hash-based-pycs")
CODE_OPTION = {
    **dict.fromkeys(("node", "nodejs", "bun"), re.compile(r"-(?:e|p|pe)$|--(?:eval|print)$")),
    **dict.fromkeys(("ruby", "lua", "luajit", "osascript", "julia", "elixir"), re.compile(r"-\w*e$|--eval$")),
    "perl": re.compile(r"-\w*[eE]$"),
    "php": re.compile(r"-r$"),
    "Rscript": re.compile(r"-e$"),
    "deno": re.compile(r"eval$"),
}
"""The options of interpreters that come before code in an argument."""

TEXT_COMMANDS = names("eval watch tmux screen script su trap entr hyperfine concurrently at batch parallel expect")
"""Programs that run some of their arguments as shell text."""
LOCAL_HOSTS = re.compile(r"(?:[\w.-]+@)?(?:localhost(?:\.localdomain)?|ip6-localhost|127(?:\.\d+){1,3}|\[?::1\]?|0)")

BACKTICKS_RUN = names("perl ruby php lua luajit")
"""Interpreters in which a string in backticks is a command."""
QUIET = SEARCHERS | names("cd head tail less more wc sort uniq cut cat ls")
"""Programs that never run the text in their arguments."""
LOCATORS = names("locate plocate mlocate mdfind")

READERS = names("cat bat head tail less more wc grep egrep fgrep rg diff cmp stat ls jq file test [ view yq sed")
"""Programs that leave a file unchanged, except with an option to edit it in place."""
OUTPUT_OPTION = re.compile(r"-[oO]|--output(?:-document|-file)?")
PREFIX = re.compile(r"(?:--?[\w-]{0,64})?(?:prefix|destdir)(=|$)", re.IGNORECASE)
"""Names of options and variables for an installation's target directory. The program reads nothing there."""
IN_PLACE = re.compile(r"-\w*i|--in-?place|--write")
GIT_TREES = names("add clean stash rm mv commit archive grep diff restore checkout reset hash-object apply am")
"""Git verbs that take, show or change files of the working tree."""
INNER_DOCKER = names("exec logs ps images image info inspect port start stop restart rm top stats wait version")
"""Docker verbs whose operands name things inside a container."""

"""What people paste is masked: secrets go, everything else stays as it was."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom import Token
from strongroom.errors import InvalidRequest
from strongroom.extras import how_to_install
from strongroom.hermes.provider.secret_mask import Mask
from tests.conftest import Clock

# Built from halves, so that no scanner takes this file for a leak.
HEX = "3f786850e387550fdab836ed7e6dc881de23001b"
MIXED = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6"
PEM = "-----BEGIN {0}PRIVATE KEY{1}-----\n" + f"{MIXED}{MIXED}\n{MIXED}==\n" + "-----END {0}PRIVATE KEY{1}-----"
ENCRYPTED = PEM.replace("-----\na1", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n\na1", 1)
PUTTY = f"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n{MIXED}\nPrivate-MAC: {HEX}"

TOKENS = {
    "ghp_" + MIXED[:36]: "github token",
    "github_pat_" + MIXED: "github token",
    "glpat-" + MIXED[:20]: "gitlab token",
    "AKIA" + "ABCDEFGH23456789": "aws access key",
    "sk-ant-" + "api03-" + MIXED: "anthropic key",
    "sk-or-" + "v1-" + HEX + HEX[:24]: "openrouter key",
    "sk-proj-" + MIXED + "_-" + MIXED: "openai key",
    "sk-svcacct-" + MIXED: "openai key",
    "sk-" + MIXED[:20] + "T3BlbkFJ" + MIXED[:20]: "openai key",
    "AIza" + MIXED[:35]: "google key",
    "GOCSPX-" + MIXED[:28]: "google token",
    "hf_" + MIXED[:34]: "hugging face token",
    "gsk_" + MIXED: "groq key",
    "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" + "QPZRY9X8GF2TVDW0S3JN54KHCE": "age key",
    "npm_" + MIXED[:36]: "npm token",
    "pypi-AgEIcHlwaS5vcmc" + MIXED + MIXED: "pypi token",
    "SG." + MIXED[:22] + "." + MIXED[:43]: "sendgrid api key",
    "xoxb-" + "123456789012-123456789012-" + MIXED[:24]: "slack token",
    "xapp-" + "1-A012345-" + MIXED: "slack token",
    "https://hooks.slack.com/services/" + "T012AB/B012AB/" + MIXED[:24]: "slack token",
    "sk_live_" + MIXED: "stripe access key",
    "123456789:" + "AAF" + MIXED[:32]: "telegram bot token",
    "AC" + HEX[:32]: "twilio api key",
    HEX[:32] + "-us12": "mailchimp access key",
    "MTk4NjIyNDgzNDcxOTI1MjQ4." + "Cl2FMQ." + "ZnCjm1XVW7vRze4b7Cq4se7kKWs": "discord bot token",
    "sq0csp-" + MIXED[:43]: "square oauth secret",
    "AccountKey=" + MIXED + MIXED[:34] + "==": "azure storage account access key",
}

TOLD = {
    "my password is hunter2": ("my password is [secret removed: password]", 1),
    "My password is swordfish.": ("My password is [secret removed: password].", 1),
    "password: hunter2": ("password: [secret removed: password]", 1),
    "Passwort: geheim99!": ("Passwort: [secret removed: password]", 1),
    "user bob\npassword: swordfish\nhost x": ("user bob\npassword: [secret removed: password]\nhost x", 1),
    "the wifi password for the cabin is tr0ub4dor": (
        "the wifi password for the cabin is [secret removed: password]",
        1,
    ),
    'the passphrase is "correct horse battery"': ('the passphrase is "[secret removed: password]"', 1),
    "DB_PASSWORD=hunter2!": ("DB_PASSWORD=[secret removed: password]", 1),
    '{"user": "bob", "password": "hunter"}': ('{"user": "bob", "password": "[secret removed: password]"}', 1),
    '{"password": "blue Teapot 9 left"}': ('{"password": "[secret removed: password]"}', 1),
    "curl -u ada:hunter2 https://x.example": ("curl -u ada:[secret removed: password] https://x.example", 1),
    "curl --user 'ada:a b:c' x": ("curl --user 'ada:[secret removed: password]' x", 1),
    "sshpass -p 'a b' ssh x": ("sshpass -p '[secret removed: password]' ssh x", 1),
    "mysql -u ada -phunter2 shop": ("mysql -u ada -p[secret removed: password] shop", 1),
    "whsec_" + MIXED[:32]: ("[secret removed: webhook secret]", 1),
    "hvs." + MIXED[:24]: ("[secret removed: vault token]", 1),
    "dop_v1_" + HEX + HEX[:24]: ("[secret removed: digitalocean token]", 1),
    "dapi" + HEX[:32]: ("[secret removed: databricks token]", 1),
    "shpat_" + HEX[:32]: ("[secret removed: shopify token]", 1),
    "abc8Q~" + MIXED[:34]: ("[secret removed: azure client secret]", 1),
    "WIFI:T:WPA;S:x;P:hunter2 a;;": ("WIFI:T:WPA;S:x;P:[secret removed: wifi password];;", 1),
    "machine x login ada password s0lar_W": ("machine x login ada password [secret removed: password]", 1),
    "https://x.example/?password=hunter2": ("https://x.example/?password=[secret removed: password]", 1),
    "the PIN is 4711": ("the PIN is [secret removed: pin]", 1),
    "my pin for the door is 47 11, ok?": ("my pin for the door is [secret removed: pin], ok?", 1),
    "the password for the cabin: tr0ub4dor": ("the password for the cabin: [secret removed: password]", 1),
    "密码\uff1aabc123\uff0c别忘了": ("密码\uff1a[secret removed: password]\uff0c别忘了", 1),
    "password\uff1ahunter2": ("password\uff1a[secret removed: password]", 1),
    "PIN: 4711 and PIN: 4712.": ("PIN: [secret removed: pin] and PIN: [secret removed: pin].", 2),
    "我的密码是abc123,别忘了": ("我的密码是[secret removed: password],别忘了", 1),
    "密码:Qwerty99": ("密码:[secret removed: password]", 1),
    "パスワードは hunter2 です": ("パスワードは [secret removed: password] です", 1),
    "비밀번호는 hunter2": ("비밀번호는 [secret removed: password]", 1),
    "мой пароль: qwerty1": ("мой пароль: [secret removed: password]", 1),
    "mon mot de passe est soleil77": ("mon mot de passe est [secret removed: password]", 1),
    "mi contraseña es luna2020": ("mi contraseña es [secret removed: password]", 1),
    f"api_key = '{MIXED[:24]}'": ("api_key = '[secret removed: token]'", 1),
    "postgres://bob:hunter2@db.example/x": ("postgres://bob:[secret removed: url password]@db.example/x", 1),
    "Authorization: Bearer abcdef123": ("Authorization: Bearer [secret removed: authorization]", 1),
    f"curl -H 'Authorization: Basic {MIXED[:20]}=='": (
        "curl -H 'Authorization: Basic [secret removed: authorization]'",
        1,
    ),
    f"//registry.example/:_authToken={HEX}": ("//registry.example/:_authToken=[secret removed: npm token]", 1),
    f"ibm_cloud_iam_key     {MIXED[:44]}": ("ibm_cloud_iam_key     [secret removed: ibm cloud iam key]", 1),
    f"a   b     c key    {MIXED[:44]}   d": ("a   b     c key    [secret removed: ibm cloud iam key]   d", 1),
    f"softlayer_key: {HEX}{HEX[:24]}": ("softlayer_key: [secret removed: softlayer credentials]", 1),
    f"cloudant_password = {HEX}{HEX[:24]}.": ("cloudant_password = [secret removed: cloudant credentials].", 1),
    f"cos_secret_access_key={HEX}{HEX[:8]}": ("cos_secret_access_key=[secret removed: ibm cos hmac credentials]", 1),
    f'aws secret key "{MIXED[:40]}"': ('aws secret key "[secret removed: aws access key]"', 1),
    "seed phrase: " + "legal winner thank year wave sausage worth useful legal winner thank yellow": (
        "seed phrase: [secret removed: seed phrase]",
        1,
    ),
}

ORDINARY = [
    "",
    'password: "must be at least 8 characters"',
    "Password: 3/5 strength. La contraseña es incorrecta. La palabra clave es «paz». Le mot de passe est périmé.",
    "curl -u $USER:$PASS x; curl -u ada x; mysql -p shop; curl https://x.example:8080/a@b",
    "We fly to Chengdu on 2026-05-25 and return on the 29th; the hotel is near Kuanzhai Alley.",
    "The key to a good trip is patience, and the token of thanks was a book.",
    "My password is wrong! Is the password correct? The pin: 2026-05-20, pin is 12:30, pin: 1234.5",
    "My password is wrong again. The password is required, and your password is too short.",
    "The password is the same as before; my password was changed. Is the password expired?",
    "What is my password? I forgot the password for the router.",
    "The secret is that I like her. The secret: patience.",
    "Pin the note to the board; pin is 3 cm long. Pin: see above. Her bowling pin is red.",
    "I pass the test: 42 of 50. Pass: 3, fail: 2.",
    "Meet at 10:30, room 4711, budget 12,500.00 EUR, version 1.2.3, ratio 16:9.",
    "Call +86 28 8555 1234 or (030) 1234-5678 or 555-0199 before 12345678:",
    "01JABCDEFGHJKMNPQRSTVWXYZ0 01KA3TX0ABCDEFGHJKMNPQRSTV [01ACCA0000ABCDEFGHJKMNPQRS]",
    "01JABCACCA0123456789ABCDEF ends like a key, ACCA0123456789ABCDEFGHJKMN begins like one",
    f"[secret removed: github token]: {MIXED[:20]} and [secret removed: password] is swordfish2",
    f"commit {HEX} and {HEX.upper()} and {HEX}{HEX[:24]}",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479 {F47AC10B-58CC-4372-A567-0E02B2C3D479}",
    "https://example.com/a/b?x=1&y=2#top ftp://files.example:2121/x http://[::1]:8080/ mailto:bob@example.com",
    "git@github.com:owner/name.git ssh://git@host:22/x https://medium.com/@bob:notes",
    "def login(user: str, password: str | None = None, token: Token = Token()) -> bool:",
    "password = os.environ['DB_PASSWORD']; password = getpass(); secret = config.secret_key",
    "const password: string = props.password; token = next(tokens); api_key=api_key",
    "password=$DB_PASSWORD password=${PW1} password: {{ vault_pw1 }} password: <password1> password=****",
    '<input type="password" name="password" placeholder="Password">',
    "for key, value in items: keys[key] = value  # the primary key is user_id_2",
    "sk-learn, task-proj-management-of-the-whole-year-2026, risk-or-reward, hf_hub, AIzawa san, disk-usage",
    "class APController: APConnection APARTHOTELS AKCENT accountKey=none eyJson.keyJson.apiKeyJsonDecoder",
    "-----BEGIN PRIVATE KEY----- is how a PEM file begins; -----BEGIN CERTIFICATE----- is another.",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl bob@host",
    "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kdx2cqs9qzd4xyz is the recipient",
    "the bearer of good news; Bearer tokens are explained in chapter twelve of the handbook",
    "Keep the passphrase: without it nobody opens the file. Authorization: Bearer instead of Basic, or Bearer sk-...",
    'Authorization: Bearer ${CAP} and "Authorization: Bearer <token-from-step-2>"',
    "密码是什么?我忘了密码。我们下周去成都,密码学很有意思。",
    "パスワードは何ですか。来週、成都へ行きます。",
    "다음 주에 청두에 갑니다. 비밀번호는 비밀입니다.",
    "Мой пароль не подходит. В среду встреча в 10:30.",
    "كلمة السر مهمة. رحلة إلى تشنغدو في 25 مايو",
    "สัปดาห์หน้าฉันจะไปเฉิงตู 👩‍👩‍👧 🇨🇳",
    "A" * 5000,
    "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAUA" * 8,
]


@pytest.fixture(scope="module")
def mask() -> Mask:
    return Mask()


def test_mask_without_detect_secrets_is_refused_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "detect_secrets", None)
    with pytest.raises(InvalidRequest) as refused:
        Mask()
    assert refused.value.reason == "invalid_request"
    assert refused.value.hint == how_to_install("hermes", sys.executable)


def test_mask_with_an_older_detect_secrets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "detect_secrets.plugins.gitlab_token", None)
    with pytest.raises(InvalidRequest) as refused:
        Mask()
    assert refused.value.hint


@pytest.mark.requirement("hermes-secrets-masked")
@pytest.mark.parametrize(("token", "kind"), TOKENS.items(), ids=[*map(str, range(len(TOKENS)))])
@pytest.mark.parametrize("around", ["{}", "use {} please", "x={}\n", '"{}"', "令牌是{}。", "`{}`,", "({})"])
def test_token_is_replaced_by_its_kind_and_the_rest_stays(mask: Mask, token: str, kind: str, around: str) -> None:
    assert mask.masked(around.format(token)) == (around.format(f"[secret removed: {kind}]"), 1)


@pytest.mark.requirement("hermes-secrets-masked")
@pytest.mark.parametrize("token", TOKENS)
def test_no_token_is_missed_for_being_short(mask: Mask, token: str) -> None:
    """Rules for long tokens are left out where no word is long: that must not change what is found."""
    thorough = Mask()
    thorough._signs_of_short = thorough._signs
    for end in range(1, len(token) + 1):
        text = f"use {token[:end]} now"
        assert mask.masked(text) == thorough.masked(text)


@pytest.mark.requirement("hermes-secrets-masked")
@pytest.mark.parametrize(
    "token", ["AKC" + "abcD123456", "APA" + "abcdE123", "xoxb-" + "1-abcdef", ":_authToken= " + "12345678"]
)
def test_shortest_tokens_are_found(mask: Mask, token: str) -> None:
    assert mask.masked(f"use {token} now")[1] == 1


def test_ordinary_text_is_looked_at_by_few_rules(mask: Mask) -> None:
    assert 0 < len(mask._signs_of_short) < len(mask._signs) / 2
    assert all(mask._rules[rank].is_long for sign, rank in {*mask._signs} - {*mask._signs_of_short})


@pytest.mark.parametrize(("text", "expected"), TOLD.items())
def test_secret_that_is_named_is_masked(mask: Mask, text: str, expected: tuple[str, int]) -> None:
    assert mask.masked(text) == expected


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_was(mask: Mask, text: str) -> None:
    assert mask.masked(text) == (text, 0)


BLOCKS = [PEM.format(*label) for label in [("", ""), ("RSA ", ""), ("OPENSSH ", ""), ("EC ", ""), ("PGP ", " BLOCK")]]


@pytest.mark.parametrize("block", [*BLOCKS, ENCRYPTED.format("RSA ", ""), PUTTY])
def test_private_key_goes_from_its_first_line_to_its_last(mask: Mask, block: str) -> None:
    expected = "here: [secret removed: private key] thanks"
    assert mask.masked(f"here: {block} thanks") == (expected, 1)
    assert mask.masked(f"here: {block.replace(chr(10), chr(13) + chr(10))} thanks") == (expected, 1)


def test_private_key_in_json_goes_whole(mask: Mask) -> None:
    block = PEM.format("", "").replace("\n", "\\n")
    assert mask.masked(f'{{"key": "{block}\\n"}}') == ('{"key": "[secret removed: private key]\\n"}', 1)


def test_private_key_that_is_cut_off_goes_to_the_end(mask: Mask) -> None:
    assert mask.masked("see " + PEM.format("RSA ", "")[:120]) == ("see [secret removed: private key]", 1)


def test_two_private_keys_are_two_and_the_words_between_stay(mask: Mask) -> None:
    block = PEM.format("", "")
    assert mask.masked(f"{block} and {block}") == (
        "[secret removed: private key] and [secret removed: private key]",
        2,
    )


@pytest.mark.requirement("hermes-secrets-masked")
def test_cap_goes_with_all_its_links_and_its_seed(mask: Mask, cap: Token, clock: Clock) -> None:
    narrowed = strongroom.attenuate(cap, namespaces=["travel"], ttl=60, now=clock)
    assert narrowed.count("~") == 2
    for token in (cap, narrowed):
        assert mask.masked(f"cap={token}, keep it") == ("cap=[secret removed: signed token], keep it", 1)
        assert mask.masked(f"cut {token[:-50]}") == ("cut [secret removed: signed token]", 1)


def test_token_that_was_cut_behind_a_hyphen_goes_with_it(mask: Mask, cap: Token) -> None:
    for cut in (f"{cap[:-50]}-", f"{cap[:-50]}--"):
        assert mask.masked(f"cut {cut}") == ("cut [secret removed: signed token]", 1)
    assert mask.masked(f"cut {cap[:-50]}.") == ("cut [secret removed: signed token].", 1)


def test_one_secret_that_two_rules_see_is_counted_once(mask: Mask) -> None:
    token = next(iter(TOKENS))
    assert mask.masked(f"password: {token}") == ("password: [secret removed: github token]", 1)
    assert mask.masked(f"Authorization: Bearer {token}") == ("Authorization: Bearer [secret removed: github token]", 1)


def test_secret_that_shows_only_once_its_neighbour_is_gone_goes_too(mask: Mask) -> None:
    token = "sk-ant-" + MIXED
    assert mask.masked(f"the PIN is 4711{token}") == (
        "the PIN is [secret removed: pin][secret removed: anthropic key]",
        2,
    )


def test_secrets_that_stand_against_each_other_all_go_however_many(mask: Mask) -> None:
    token = "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"
    for count in (2, 5, 9, 300):
        once, _ = mask.masked(f"use {token * count} here")
        assert token not in once
        assert once.startswith("use [secret removed: shopify token]")
        assert once.endswith(" here")
        assert mask.masked(once) == (once, 0)


def test_text_full_of_secrets_holds_none_afterwards(mask: Mask) -> None:
    text = "\n".join(f"number {number}: {token}" for number, token in enumerate(TOKENS))
    masked, count = mask.masked(text)
    assert count == len(TOKENS)
    assert not [token for token in TOKENS if token in masked]
    assert masked.count("\n") == text.count("\n")


@pytest.mark.parametrize("text", [*TOLD, *TOKENS, *BLOCKS, PUTTY])
def test_masking_again_changes_nothing(mask: Mask, text: str) -> None:
    once, _ = mask.masked(f"{text} and {text}")
    assert mask.masked(once) == (once, 0)


PARTS = [
    *TOKENS,
    *TOLD,
    "password is ",
    "PIN: ",
    "token=",
    "Bearer ",
    " ",
    "\n",
    "-",
    "_",
    "'",
    '"',
    "://a:",
    "@",
    "é",
    ".",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=6), max_size=8).map("".join))
def test_masking_any_mixture_again_changes_nothing(text: str) -> None:
    once, _ = SHARED.masked(text)
    assert SHARED.masked(once) == (once, 0)


SHARED = Mask()


def test_threads_share_a_mask(mask: Mask) -> None:
    texts = [f"{around} {token}" for token in TOKENS for around in ("use", "take")]
    expected = [mask.masked(text) for text in texts]
    seen: list[list[tuple[str, int]]] = []
    threads = [threading.Thread(target=lambda: seen.append([mask.masked(text) for text in texts])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [expected] * 4


@pytest.mark.parametrize("gap", ["\u200b", "\u00ad", "\u2060", "\ufeff", "\u200d", "\ufe0f"])
def test_character_that_shows_nothing_hides_no_secret(mask: Mask, gap: str) -> None:
    token = "ghp_" + MIXED[:36]
    hidden = token[:2] + gap + token[2:20] + gap + token[20:]
    assert mask.masked(f"use {hidden}, {gap}please") == (f"use [secret removed: github token], {gap}please", 1)


@pytest.mark.parametrize("word", ["раsswоrd", "ｐａｓｓｗｏｒｄ", "pass\u200bword", "ΡΑSSWORD"])
def test_letters_that_look_alike_hide_no_password(mask: Mask, word: str) -> None:
    assert mask.masked(f"{word}: hunter2") == (f"{word}: [secret removed: password]", 1)


def test_token_in_two_lines_goes_whole(mask: Mask) -> None:
    for wrapped in ("\n", "\\\n", "\r\n"):
        text = f"github_pat_{MIXED}{wrapped}{MIXED[:30]}\nnext line"
        assert mask.masked(text) == ("[secret removed: github token]\nnext line", 1)
    text = f"ghp_{MIXED[:36]}\nAnInternationalizationFrameworkForEveryone"
    assert mask.masked(text)[0].endswith("\nAnInternationalizationFrameworkForEveryone")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres://app:p@ss/w0rd#1@db/x", "postgres://app:[secret removed: url password]@db/x"),
        ("a://u:p@h b://v:q@i", "a://u:[secret removed: url password]@h b://v:[secret removed: url password]@i"),
        ("http://example.com:8080/mail?to=a@b.example", "http://example.com:8080/mail?to=a@b.example"),
        ("ssh://git@git.example:2222/team/shop.git", "ssh://git@git.example:2222/team/shop.git"),
    ],
)
def test_password_in_an_address_goes_up_to_the_last_sign(mask: Mask, text: str, expected: str) -> None:
    assert mask.masked(text)[0] == expected


HOSTILE = [
    *("sk-", "eyJ", "eyJ.", "eyJhbGciOiJIUzI1NiJ9.", "//", "://a:", "key   ", "key" + " " * 64, "password is "),
    *("password: ", "password for a b c d ", "token=", "awskey", "-----BEGIN PRIVATE KEY-----"),
    *("-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAA", "glagent-", "glpat-", "ghp_", "xoxb-1-", "12345678:", "M."),
    *("-us1", " AKC", "Bearer ", "authorization: bearer ", "a", " ", "pin is 1", "1 ", "seed phrase is abc "),
    *("密码是", "pypi-AgEIcHlwaS5vcmc", "cloudant_key", "pwd='", "~", "AC"),
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_a_hostile_text_and_not_with_its_square(mask: Mask, piece: str) -> None:
    def cost(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        return min(_spent(lambda: mask.masked(text)) for _ in range(3))

    # Eight times the text: 8 if linear, 64 if quadratic. A millisecond more, since the small one may take next to none.
    assert cost(65536) < 28 * cost(8192) + 0.001


def test_time_grows_linearly_where_every_secret_is_another(mask: Mask) -> None:
    def cost(count: int) -> float:
        text = " ".join(f"key   {number:044d}" for number in range(count))
        return min(_spent(lambda: mask.masked(text)) for _ in range(3))

    assert cost(1600) < 28 * cost(200) + 0.001


def _spent(call: Callable[[], object]) -> float:
    before = time.thread_time()
    call()
    return time.thread_time() - before

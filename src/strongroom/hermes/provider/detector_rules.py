"""Rules made from the detectors of `detect-secrets`. Each rule has signs: short texts, one of which is in every match.

A match inside a longer word is not a secret. This module only finds secrets; `secret_mask` masks them.
"""

from __future__ import annotations

import importlib
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from strongroom.errors import InvalidRequest
from strongroom.extras import how_to_install
from strongroom.hermes.provider.secret_patterns import LONG, Finder, SecretRule, Span


@dataclass(frozen=True, slots=True)
class _Taken:
    """A detector and how its patterns are used. With `group`, only the pattern's group is the secret."""

    module: str
    detector: str
    signs: tuple[str, ...]
    group: bool = False
    is_whole: bool = False
    """Whether the match must be a whole word. If false, the rest of the word is masked too."""
    needs: re.Pattern[str] = re.compile("")
    shortest: int = LONG
    """The minimum number of consecutive characters without white space in a secret of this detector."""


_MIXED = re.compile(r"(?=.{0,200}\d)(?=.{0,200}[a-z])(?=.{0,200}[A-Z])")
_DIGIT = re.compile(r".{0,200}\d")
_KEYS = ("key", "pwd", "pass", "token")
_TAKEN = (
    _Taken("aws", "AWSKeyDetector", ("akia", "asia", "abia", "acca", "a3t", "aws"), group=True, is_whole=True),
    _Taken("artifactory", "ArtifactoryDetector", ("akc", "ap"), is_whole=True, needs=_MIXED, shortest=11),
    _Taken("azure_storage_key", "AzureStorageKeyDetector", ("accountkey=",)),
    _Taken("discord", "DiscordBotTokenDetector", (".",), needs=_MIXED),
    _Taken("github_token", "GitHubTokenDetector", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    _Taken("gitlab_token", "GitLabTokenDetector", ("gl", "gr1348941")),
    _Taken("mailchimp", "MailchimpDetector", ("-us",), is_whole=True),
    _Taken("pypi_token", "PypiTokenDetector", ("pypi-age",)),
    _Taken("sendgrid", "SendGridDetector", ("sg.",)),
    _Taken("slack", "SlackDetector", ("xox", "hooks.slack.com"), shortest=8),
    _Taken("square_oauth", "SquareOAuthDetector", ("sq0csp-",)),
    _Taken("stripe", "StripeDetector", ("k_live_",)),
    _Taken("telegram_token", "TelegramBotTokenDetector", (":",), is_whole=True),
    _Taken("twilio", "TwilioKeyDetector", ("ac", "sk"), is_whole=True),
)
_ASSIGNED = (
    _Taken("cloudant", "CloudantDetector", ("cl",), group=True, shortest=24),
    _Taken("ibm_cloud_iam", "IbmCloudIamDetector", _KEYS, group=True, needs=_DIGIT, shortest=44),
    _Taken("ibm_cos_hmac", "IbmCosHmacDetector", ("secret",), group=True, shortest=48),
    _Taken("softlayer", "SoftlayerDetector", ("sl", "softlayer"), group=True, shortest=64),
)
_SPACES = re.compile(" {3,}")
_REST = re.compile(r"[A-Za-z0-9_-]*")


def maintained_rules() -> Iterator[SecretRule]:
    """The rules that are made from detectors of detect-secrets."""
    for taken in _TAKEN:
        detector = _detector(taken)
        yield SecretRule(_kind(detector), taken.signs, _by_place(detector.denylist, taken), taken.shortest >= LONG)
    for taken in _ASSIGNED:
        detector = _detector(taken)
        yield SecretRule(
            _kind(detector), taken.signs, _spaced(_by_place(detector.denylist, taken), taken), taken.shortest >= LONG
        )


def _detector(taken: _Taken) -> Any:
    try:
        importlib.import_module("detect_secrets")
        return getattr(importlib.import_module(f"detect_secrets.plugins.{taken.module}"), taken.detector)()
    except (ImportError, AttributeError):
        install = how_to_install("hermes", sys.executable)
        raise InvalidRequest("masking secrets needs detect-secrets 1.5", hint=install) from None


def _kind(detector: Any) -> str:
    return str(detector.secret_type).lower()


def _by_place(patterns: Iterable[re.Pattern[str]], taken: _Taken) -> Finder:
    held = tuple(patterns)

    def find(text: str) -> Iterator[Span]:
        for pattern in held:
            done = 0  # a long word is measured once, not for each match in it
            for found in pattern.finditer(text):
                start, end = _trimmed(text, *found.span(found.lastindex if taken.group and found.lastindex else 0))
                if start >= done and not _is_inside(text, start) and taken.needs.match(text[start:end]):
                    done = _REST.match(text, end).end()  # type: ignore[union-attr]  # it matches the empty text
                    if done == end or not taken.is_whole:
                        yield start, done

    return find


def _trimmed(text: str, start: int, end: int) -> Span:
    """Leave out the delimiters at the edges of a match."""
    found = text[start:end]
    return start + len(found) - len(found.lstrip(' \t\r\n=:"')), end - len(found) + len(found.rstrip(' \t\r\n"'))


def _is_inside(text: str, start: int) -> bool:
    """Whether a position is inside a word, and not at the word's beginning."""
    before = text[start - 1 : start]
    return before.isascii() and before.isalnum()


def _spaced(find: Finder, taken: _Taken) -> Finder:
    """Make a finder that shortens runs of spaces to two, because some patterns take cubic time on repeated spaces."""
    run = re.compile(f"[A-Za-z0-9_-]{{{taken.shortest}}}")

    def found(text: str) -> Iterator[Span]:
        if run.search(text):
            places, gone = [0], [0]  # for each position, how many spaces were removed before it
            for spaces in _SPACES.finditer(text):
                gone.append(gone[-1] + len(spaces[0]) - 2)
                places.append(spaces.end() - gone[-1])
            for start, end in find(_SPACES.sub("  ", text)):
                before = gone[bisect_right(places, start) - 1]
                yield start + before, end + before

    return found

"""Languages other than English: stems and stop words by the words and letters of a text."""

from __future__ import annotations

import unicodedata

import pytest

from strongroom.engines.lexical.tokenizer import words
from tests.engines.tools import ENGINE, filled, line, texts

pytestmark = pytest.mark.requirement("recall-languages")


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("Die Fahrräder stehen bei den Nachbarn", "Wo ist das Fahrrad der Nachbarin und wo steht es?"),
        ("Les clés sont dans la cuisine de ma sœur", "Où est la clé ?"),
        ("Las llaves están en la cocina", "¿Dónde está la llave?"),
        ("Ho comprato i biglietti per il concerto", "Dove sono il biglietto e la ricevuta?"),
        ("Comprei os bilhetes para o concerto", "Onde está o bilhete do concerto?"),
        ("De sleutels liggen in de keuken", "Waar is de sleutel van het huis?"),
        ("Ключи лежат на кухне", "Где мой ключ?"),
        ("Anahtarları mutfakta bıraktım, çok iyi", "anahtarlarım nerede ve mutfak ne kadar"),
        ("Το βιβλίο είναι στο γραφείο", "Πού είναι το βιβλίο και το γραφείο;"),
        ("الكتب في المكتب", "أين الكتب من المكتب"),
    ],
)
def test_question_finds_a_line_with_other_forms_of_its_words(told: str, asked: str) -> None:
    assert set(words(told)) & set(words(asked))
    assert texts(asked, filled([line(1, told), line(2, "an ordinary boat")]), k=1) == [told]


@pytest.mark.parametrize(
    "text",
    [
        "Die Zug nach Köln ist nicht pünktlich und der Bus auch nicht",
        "El niño está aquí",
        "Où est la clé de la cave ?",
    ],
)
def test_language_does_not_depend_on_the_composition_of_letters(text: str) -> None:
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert words(unicodedata.normalize(form, text)) == words(text)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("We met Herr Müller at the café in Köln", ["meet", "herr", "muller", "cafe", "koln"]),
        ("walking dogs", ["walk", "dog"]),
        ("Señor Muñoz was walking the dogs in the park", ["senor", "munoz", "walk", "dog", "park"]),
        ("成都旅行", ["成都", "都旅", "旅行", "成", "旅", "行"]),
        ("parse_config.v2", ["parse_config.v2", "pars", "config", "v", "2"]),
    ],
)
def test_english_with_foreign_names_and_scripts_without_spaces_and_identifiers_stay_as_they_are(
    text: str, held: list[str]
) -> None:
    assert words(text) == held


def test_identifier_in_another_language_is_matched_whole() -> None:
    assert "parse_config.v2" in words("Die Datei parse_config.v2 ist nicht mehr in dem Ordner")


def test_stop_words_of_another_language_do_not_count() -> None:
    assert "und" not in words("Der Hund und die Katze sind in dem Haus")
    assert words("und der die das")  # but alone they do


def test_mixed_text_is_read_by_the_language_of_most_of_its_words() -> None:
    assert "fahrrad" in words("Das Fahrrad ist bei dem Nachbarn, the bike is not mine")


def test_removing_a_line_of_another_language_leaves_no_trace() -> None:
    told = line(1, "Всегда отвечай, где ключи лежат на кухне")
    index = filled([line(2, "a boat")])
    index.add_read([told], ENGINE.readings([told]))
    index.remove(told)
    assert index.postings.keys() == {"boat"}

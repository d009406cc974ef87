"""Word lists of English: stop words, irregular forms, and a few everyday synonyms.

The stemmer (Snowball) knows regular endings only: it turns "walked" into "walk", but not "went" into "go".
"""

from __future__ import annotations


def as_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


STOP = as_set(
    # articles, conjunctions and particles
    "a an the and or but nor if then else than so too very just only again further once here there not no"
    # prepositions
    " of at by for with about against between into through during before after above below to from up down in out on"
    " off over under"
    # pronouns
    " i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself"
    " it its itself they them their theirs themselves this that these those all any both each few more most other some"
    " such own same"
    # question words
    " what which who whom when where why how"
    # auxiliaries, and the remains of their contractions
    " am is are was were be been being have has had having do does did doing will would can could should ought let"
    " lets s t don now im ive id youre hes shes theyre isnt arent wasnt werent hasnt havent hadnt doesnt didnt dont"
    " wont wouldnt cant couldnt"
)

HAN_STOP = frozenset("的了是在我你他她有和就不人都一上也很到说要去会着没看好这那吗呢吧啊什么怎哪谁几")
"""Han characters with a mostly grammatical use. They are not searched alone, only as part of a pair of characters."""

_IRREGULAR = (
    "go went gone goes, buy bought, bring brought, think thought, teach taught, catch caught, seek sought,"
    " fight fought, make made, take took taken, get got gotten, give gave given, see saw seen, say said, tell told,"
    " sell sold, hold held, find found, feel felt, keep kept, sleep slept, leave left, lose lost, meet met, run ran,"
    " swim swam swum, sing sang sung, drink drank drunk, begin began begun, ring rang rung, win won,"
    " write wrote written, drive drove driven, ride rode ridden, rise rose risen, choose chose chosen,"
    " speak spoke spoken, break broke broken, wake woke woken, steal stole stolen, freeze froze frozen, eat ate eaten,"
    " fall fell fallen, know knew known, grow grew grown, throw threw thrown, blow blew blown, fly flew flown,"
    " draw drew drawn, show shown, wear wore worn, tear tore torn, bear bore borne born, swear swore sworn, come came,"
    " become became, spend spent, send sent, build built, lend lent, bend bent, pay paid, lay laid, lie lain,"
    " hear heard, stand stood, understand understood, sit sat, shoot shot, hide hid hidden, bite bit bitten, hang hung,"
    " dig dug, stick stuck, strike struck, swing swung, mean meant, dream dreamt, learn learnt, burn burnt, deal dealt,"
    " forget forgot forgotten, forgive forgave forgiven, shake shook shaken, mistake mistook mistaken, light lit,"
    " lead led, feed fed, shine shone, sew sewn, bind bound, wind wound, foot feet, tooth teeth, mouse mice,"
    " goose geese, life lives, wife wives, knife knives, leaf leaves, half halves, man men, woman women, person people,"
    " good better best, bad worse worst"
)

_SYNONYMS = (
    "mom mother mum mommy mama, dad father daddy papa, kid child children, photo picture pic photograph,"
    " bike bicycle, tv television, movie film, start begin, trip journey, doctor doc physician, plane airplane,"
    " phone telephone, fridge refrigerator, vet veterinarian"
)


def _table(groups: str) -> dict[str, str]:
    words = [group.split() for group in groups.split(",")]
    return {other: first for first, *others in words for other in others}


def _plurals(table: dict[str, str]) -> dict[str, str]:
    return {f"{word}s": base for word, base in table.items()} | table


BASE = _table(_IRREGULAR)
SYNONYM = _plurals(_table(_SYNONYMS))

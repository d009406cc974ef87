"""The kinds of everyday questions: what an instruction and the question that it applies to have in common.

"Always answer in metric units" shares no word with "how far is Graz from Vienna?", but both are about measures. A kind
is a list of everyday words. A text is of every kind that lists one of its words, and a word may belong to several
kinds. The lists were written by hand, for English.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from strongroom.engines.lexical.tokenizer import words

KINDS: Mapping[str, str] = {
    "general": (
        "pronoun address emoji emojis tone formal informal polite blunt honest casual greeting spelling grammar "
        "exclamation jargon plain sentence sentences bullet short brief briefly concise lengthy reply replies answer "
        "answers response flattery apology sure unsure guess guessing nickname english"
    ),
    "measure": (
        "metric imperial unit units mile miles kilometre kilometres kilometer kilometers km metre metres meter meters "
        "feet foot inch inches celsius fahrenheit degrees kilo kilos kilogram gram grams pound pounds ounce litre "
        "litres liter gallon cups far tall height heavy weigh weighs weight wide width deep depth distance "
        "temperature hot speed square altitude length"
    ),
    "code": (
        "code coding python javascript typescript java rust golang sql bash shell script scripts function functions "
        "program programming bug debug regex algorithm commit commits git refactor unit-test pytest parse parses "
        "parser api library libraries framework docstring docstrings loop array json query database deploy docker "
        "repository compile snippet developer software html css endpoint exception"
    ),
    "food": (
        "food foods eat eating meal meals cook cooking recipe recipes dinner lunch breakfast supper snack snacks "
        "restaurant restaurants cuisine dish dishes bake baking vegan vegetarian meat fish seafood shellfish chicken "
        "pork beef dairy milk cheese gluten nuts peanut peanuts egg eggs sugar salt salty spicy diet dessert cake "
        "menu ingredient ingredients soup broth salad pasta rice groceries pizza barbecue oven fry fried mushroom "
        "mushrooms coriander cilantro onion onions garlic tomato tomatoes bread picnic canteen takeaway halal kosher "
        "linguine noodles curry sauce stew vegetable vegetables fruit potatoes portion portions catering buffet"
    ),
    "drink": (
        "drink drinks coffee tea wine beer alcohol cocktail juice espresso caffeine decaf bar pub champagne lemonade"
    ),
    "flight": (
        "fly flying flight flights plane airline airport seat seats aisle layover overnight boarding luggage baggage"
    ),
    "journey": (
        "travel travelling trip flight fly flights plane train trains ferry bus journey route connection itinerary "
        "station abroad destination holiday vacation reach ticket tickets tour drive lake island coast"
    ),
    "stay": (
        "hotel hotels hostel guest guesthouse accommodation room rooms airbnb campsite stay lift stairs elevator "
        "floor balcony cabin apartment"
    ),
    "schedule": (
        "schedule calendar meeting meetings appointment appointments morning mornings afternoon afternoons evening "
        "evenings monday mondays tuesday tuesdays wednesday wednesdays thursday thursdays friday fridays saturday "
        "saturdays sunday sundays reminder reminders remind reminded o'clock lunchtime reschedule slot slots "
        "available noon forget"
    ),
    "dates": "date dates deadline timestamp holidays calendar month iso day-first",
    "clock": "timezone zone utc clock zurich times hour hours o'clock start starts begin begins",
    "money": (
        "money price prices priced cost costs currency euro euros dollar dollars franc francs yen pound budget "
        "expensive cheap pay payment spend spending afford invoice bill salary rent subscription fee tax revenue "
        "turnover sales worth earn takings earnings profit"
    ),
    "mail": (
        "mail mails email emails letter letters message messages reply signature signed inbox newsletter invitation "
        "send client customer subject answer write draft"
    ),
    "text": (
        "write writing draft essay article post blog report summary summarise summarize introduction speech proofread "
        "paragraph wording headline announcement caption congratulate text describe"
    ),
    "language": (
        "english german french spanish italian portuguese dutch russian chinese japanese korean turkish arabic greek "
        "polish translate translation spelling dialect ist der die das und wie was qué cómo est les pour"
    ),
    "vocabulary": ("vocabulary word words verb verbs noun flashcard flashcards phrase phrases translate translation"),
    "film": (
        "film films movie movies cinema series watch tv television episode subtitle subtitles dubbed documentary "
        "spoiler spoilers streaming horror scary trailer season netflix"
    ),
    "music": "music song songs album band playlist playlists concert listen singer instrument guitar piano vinyl",
    "reading": (
        "book books novel novels read reading author thriller murder murders crime ebook audiobook fiction poem "
        "library literature"
    ),
    "sport_result": (
        "football soccer match matches game score scores league tennis final cup goal team result results race"
    ),
    "exercise": (
        "exercise exercises gym training workout workouts yoga swim swimming stretch stretching fitness squat jumping "
        "push-ups knee plank warm-up run running"
    ),
    "health": (
        "health doctor dentist medicine medication pill pills tablet tablets herb herbs pain painkiller ill sick "
        "symptom symptoms allergy allergic injury vitamin headache prescription pharmacy therapy blood vaccine "
        "ibuprofen aspirin penicillin cough fever supplement wort remedy spirits"
    ),
    "family": (
        "kid kids child children daughter son sons twins baby toddler toys school homework babysitter playground "
        "nephew niece teenager bored screens screen"
    ),
    "gift": "gift gifts present presents birthday birthdays christmas anniversary wedding",
    "shopping": (
        "buy shop shopping store purchase brand secondhand delivery groceries list flour soap batteries aisle "
        "department supermarket"
    ),
    "clothes": ("clothes shirt shoe shoes jacket dress trousers outfit fabric wool leather cotton wear sweater coat"),
    "colour": ("colour colours color colors palette chart charts curve curves plot diagram map red green blue paint"),
    "tools": "tool tools scissors knife saw drill hammer left-handed handed instrument screwdriver",
    "weather": "weather rain raining forecast sunny snow umbrella wind storm",
    "facts": (
        "source sources citation cite reference references figure figures statistic statistics evidence percent "
        "percentage population average how-many many number"
    ),
    "papers": (
        "paper papers doi published publication publications journal study studies literature preprint arxiv research"
    ),
    "formula": ("formula formulas formulae equation equations latex expression derivation integral energy maths math"),
    "homework": (
        "homework exercise exercises problem problems solution solve worksheet worksheets hint hints exam slides "
        "block calculate friction"
    ),
    "explaining": "explain explains explanation understand concept meaning mean means theory difference entropy",
    "work": (
        "office boss colleague client clients customer project presentation report contract contracts lease agreement "
        "interview spreadsheet excel document documents pdf warehouse offer quote proposal"
    ),
    "print": "print printed printing font type worksheet worksheets handout poster size",
    "list": "list lists bullet table column overview compare comparison options pros cons steps",
    "home": (
        "clean cleaning flat apartment furniture wall laundry detergent smell scent perfume candle repair heating"
    ),
    "garden": (
        "garden gardening plant plants lettuce snail snails slug slugs weed weeds compost lawn spray sprayed flower "
        "flowers tomatoes hedge pest pests"
    ),
    "pet": "pet pets dog dogs cat cats puppy kitten vet leash animal animals rabbit hamster parrot",
    "car": "car cars drive driving park parking fuel petrol motorway highway toll electric charging",
    "bicycle": "bike bicycle cycle cycling helmet bikes",
    "transport": "train trains tram bus commute underground subway car bike walk",
    "phone": "phone telephone ring call calls voicemail whatsapp sms reach number website contact",
    "privacy": "share private privacy secret confidential photo photos publish post client clients send showing",
    "joke": "joke jokes humour humor funny pun sarcasm irony logo opinion think",
    "computer": (
        "computer internet browser website wifi app apps phone laptop password cookie cookies software update"
    ),
}
"""The words of each kind."""

GENERAL = 1
"""The bit of the first kind. An instruction of this kind, such as how to address somebody, fits every request."""


def _kinds() -> dict[str, int]:
    found: dict[str, int] = {}
    for bit, listed in enumerate(KINDS.values()):
        for word in words(listed):
            found[word] = found.get(word, 0) | 1 << bit
    return found


_KINDS_OF_WORD = _kinds()


def kinds_of(found: Iterable[str]) -> int:
    """The kinds to which these words belong, one bit for each kind."""
    kinds = 0
    for word in found:
        kinds |= _KINDS_OF_WORD.get(word, 0)
    return kinds


def bits_of(kinds: int) -> list[int]:
    """The numbers of the bits that are set, lowest first."""
    return [bit for bit in range(kinds.bit_length()) if kinds >> bit & 1]

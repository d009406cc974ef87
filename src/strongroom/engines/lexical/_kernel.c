/* The ranking's inner loops: the same as `python_reference`, for all shelves in one call.

   Plain arithmetic over the columns of indexes. Lines are numbers here: the only text seen is the words of the question,
   and nothing is kept between calls. The columns are held through the buffer protocol, so that nobody can resize one
   during a call, and every number that is read from a column is checked before it is used as an index.

   Every line of the shortlist is scored, which takes less time than finding out which ones need to be. Sums are added
   in the same order as in Python, so scores differ by rounding at most. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WORDS 128
#define TF_BITS 8
#define TF_MASK 255
#define MOST_MARKS 256
#define MOST_LENGTHS 64
#define CHOSEN 1
#define NEIGHBOUR 2
#define ROUNDING 1e-9

typedef struct {
    uint64_t bits[MOST_WORDS / 64];
} Held;

/* A line that holds a word, has to do with the days, or is the neighbour of one that does. */
typedef struct {
    double tops, strength, match, first, cover, score, least;
    Held held;
    uint32_t number;
    char out, chosen;
} Hit;

typedef struct {
    double tops, strength, worth, best; /* `best`: the greatest match of its lines */
    uint32_t number, count, then; /* `count` of the present word; `then` leads to the next session that holds it */
} Session;

typedef struct {
    Py_buffer lengths, sessions, previous, next, marks, session_lengths;
    Py_ssize_t size, session_size;
    PyObject *postings, *numbers, *days; /* borrowed */
    uint32_t *unwanted;
    Py_ssize_t unwanted_count;
    uint32_t *places;         /* of each line: 1 + its place in `hits`, or 0 */
    uint32_t *session_places;
    Hit *hits;
    Session *met;
    Py_ssize_t hit_count, hit_room, found_count, met_count, met_room;
    uint32_t holding; /* the first session that holds the present word: 1 + its place in `met`, or 0 */
} Shelf;

typedef struct {
    PyObject *word;    /* borrowed */
    PyObject **places; /* its occurrences on each shelf, or NULL */
    Py_ssize_t lines;
    double rarity;
    int common;
} Word;

/* A question as numbers, named as in `python_reference` and `signals`. */
typedef struct {
    double base, top, slope, session_slope, lines, sessions;
    double by_match, by_cover, by_session, by_best, by_context, by_before, by_date, most_of_line;
    double by_first;             /* the weight of a match in the first pass */
    double whole;                /* the sum of all rarities, those of words that no line holds included */
    double best_cover, best_context, few;
    double days_rarity, days_session_rarity, session_mass;
    int asks, is_pruned, is_cut;
    Py_ssize_t k, enough, most, most_words, shortlist, word_count, unknown_count, length_count;
    double marks[MOST_MARKS], substances[MOST_LENGTHS];
    Word *words;
    PyObject **places;
    Py_ssize_t place_count;
} Search;

static int
fail(const char *why)
{
    PyErr_SetString(PyExc_ValueError, why);
    return -1;
}

/* Columns. */

static int
hold(PyObject *column, Py_buffer *view, const char *format)
{
    if (PyObject_GetBuffer(column, view, PyBUF_FORMAT | PyBUF_ND) < 0)
        return -1;
    if (view->ndim == 1 && view->format != NULL && strcmp(view->format, format) == 0)
        return 0;
    PyBuffer_Release(view);
    return fail("a column of an index has another type");
}

static Py_ssize_t
count_of(const Py_buffer *view)
{
    return view->len / view->itemsize;
}

#define LENGTH(shelf, at) (((const uint16_t *)(shelf)->lengths.buf)[at])
#define SESSION(shelf, at) (((const uint32_t *)(shelf)->sessions.buf)[at])
#define PREVIOUS(shelf, at) (((const int32_t *)(shelf)->previous.buf)[at])
#define NEXT(shelf, at) (((const int32_t *)(shelf)->next.buf)[at])
#define MARKS(shelf, at) (((const uint8_t *)(shelf)->marks.buf)[at])
#define SESSION_LENGTH(shelf, at) (((const uint32_t *)(shelf)->session_lengths.buf)[at])

/* Make room for one more entry in a table. */
static int
grow(void **table, Py_ssize_t count, Py_ssize_t *room, size_t each)
{
    if (count < *room)
        return 0;
    Py_ssize_t more = 2 * *room + 64;
    void *moved = PyMem_Realloc(*table, (size_t)more * each);
    if (moved == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *table = moved;
    *room = more;
    return 0;
}

static Hit *
find_hit(const Shelf *shelf, int32_t number)
{
    uint32_t place = number < 0 || number >= shelf->size ? 0 : shelf->places[number];
    return place ? &shelf->hits[place - 1] : NULL;
}

static Hit *
add_hit(Shelf *shelf, uint32_t number)
{
    if (grow((void **)&shelf->hits, shelf->hit_count, &shelf->hit_room, sizeof(Hit)) < 0)
        return NULL;
    Hit *hit = &shelf->hits[shelf->hit_count++];
    memset(hit, 0, sizeof(Hit));
    hit->number = number;
    shelf->places[number] = (uint32_t)shelf->hit_count;
    return hit;
}

static Session *
find_session(const Shelf *shelf, uint32_t number)
{
    uint32_t session = SESSION(shelf, number), place = session < shelf->session_size ? shelf->session_places[session] : 0;
    return place ? &shelf->met[place - 1] : NULL;
}

static Session *
meet_session(Shelf *shelf, uint32_t number)
{
    Session *known = find_session(shelf, number);
    if (known != NULL)
        return known;
    if (SESSION(shelf, number) >= shelf->session_size) {
        fail("a line's session is not there");
        return NULL;
    }
    if (grow((void **)&shelf->met, shelf->met_count, &shelf->met_room, sizeof(Session)) < 0)
        return NULL;
    Session *session = &shelf->met[shelf->met_count++];
    memset(session, 0, sizeof(Session));
    session->number = SESSION(shelf, number);
    shelf->session_places[session->number] = (uint32_t)shelf->met_count;
    return session;
}

/* Words. */

static double
rarity_of(double total, double holding)
{
    return log(1 + (total - holding + 0.5) / (holding + 0.5));
}

/* The BM25 factor of a word that a text holds `count` times instead of once. */
static double
times(const Search *search, double slope, double length, double count)
{
    double once = search->base + slope * length;
    return count * once / (count - 1 + once);
}

static int
take_occurrence(const Search *search, Shelf *shelf, int bit, uint32_t packed)
{
    const Word *word = &search->words[bit];
    uint32_t number = packed >> TF_BITS, count = packed & TF_MASK;
    double top = word->rarity * search->top;
    if ((Py_ssize_t)number >= shelf->size || count == 0)
        return fail("a word leads to a line that does not hold it");
    Hit *hit = find_hit(shelf, (int32_t)number);
    if (hit == NULL) {
        if (word->common)
            return 0;
        hit = add_hit(shelf, number);
        if (hit == NULL)
            return -1;
    }
    hit->tops += top;
    if (count > 1)
        hit->tops += top * (times(search, search->slope, LENGTH(shelf, number), count) - 1);
    hit->held.bits[bit / 64] |= (uint64_t)1 << bit % 64;
    if (word->common)
        return 0;
    Session *session = meet_session(shelf, number);
    if (session == NULL)
        return -1;
    if (session->count == 0) {
        session->then = shelf->holding;
        shelf->holding = (uint32_t)(session - shelf->met) + 1;
    }
    session->count += count;
    return 0;
}

/* Take the occurrences of a word on a shelf: a column, or a single number. */
static int
take_occurrences(const Search *search, Shelf *shelf, int bit, PyObject *occurrences)
{
    if (occurrences == NULL)
        return 0;
    if (PyLong_Check(occurrences)) {
        unsigned long packed = PyLong_AsUnsignedLong(occurrences);
        if (PyErr_Occurred())
            return -1;
        if (packed > UINT32_MAX)
            return fail("a word leads to a line that does not hold it");
        return take_occurrence(search, shelf, bit, (uint32_t)packed);
    }
    Py_buffer view;
    if (hold(occurrences, &view, "I") < 0)
        return -1;
    const uint32_t *packed = view.buf;
    Py_ssize_t size = count_of(&view);
    int failed = 0;
    for (Py_ssize_t at = 0; at < size && !failed; at++)
        failed = take_occurrence(search, shelf, bit, packed[at]) < 0;
    PyBuffer_Release(&view);
    return failed ? -1 : 0;
}

/* Add a word's score to the sessions that hold it. It depends on how many of all sessions do. */
static double
weigh_sessions(const Search *search, Shelf *shelves, Py_ssize_t shelf_count)
{
    double holding = 0;
    for (Py_ssize_t at = 0; at < shelf_count; at++)
        for (uint32_t place = shelves[at].holding; place; place = shelves[at].met[place - 1].then)
            holding++;
    double rarity = rarity_of(search->sessions, holding), top = rarity * search->top;
    for (Py_ssize_t at = 0; at < shelf_count; at++) {
        Shelf *shelf = &shelves[at];
        for (uint32_t place = shelf->holding; place;) {
            Session *session = &shelf->met[place - 1];
            double length = SESSION_LENGTH(shelf, session->number);
            session->tops += top * times(search, search->session_slope, length, session->count);
            session->count = 0;
            place = session->then;
        }
        shelf->holding = 0;
    }
    return rarity;
}

static int
count_lines(Word *word, const Shelf *shelves, Py_ssize_t shelf_count)
{
    for (Py_ssize_t at = 0; at < shelf_count; at++) {
        PyObject *found = PyDict_GetItemWithError(shelves[at].postings, word->word);
        if (found == NULL && PyErr_Occurred())
            return -1;
        PyObject *before = word->places[at];
        Py_XINCREF(found);
        word->places[at] = found;
        Py_XDECREF(before);
        if (found == NULL)
            continue;
        Py_ssize_t lines = PyLong_Check(found) ? 1 : PyObject_Size(found);
        if (lines < 0)
            return -1;
        word->lines += lines;
    }
    return 0;
}

static int
rarer(const void *one, const void *other)
{
    const Word *left = one, *right = other;
    if (left->lines != right->lines)
        return left->lines < right->lines ? -1 : 1;
    return PyUnicode_Compare(left->word, right->word);
}

/* Choose the words that any line holds, rarest first, without those that most lines hold, except if all are such. */
static int
choose_words(Search *search, PyObject *given, const Shelf *shelves, Py_ssize_t shelf_count)
{
    Py_ssize_t count = PyTuple_Size(given), known = 0, seen = 0;
    search->words = PyMem_Calloc((size_t)count + 1, sizeof(Word));
    search->places = PyMem_Calloc((size_t)count * (size_t)shelf_count + 1, sizeof(PyObject *));
    search->place_count = count * shelf_count;
    if (search->words == NULL || search->places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        Word *word = &search->words[known];
        *word = (Word){.word = PyTuple_GetItem(given, at), .places = &search->places[known * shelf_count]};
        if (!PyUnicode_CheckExact(word->word))
            return fail("a word is no text");
        if (count_lines(word, shelves, shelf_count) < 0)
            return -1;
        known += word->lines > 0;
    }
    search->unknown_count = count - known;
    qsort(search->words, (size_t)known, sizeof(Word), rarer);
    if (known && search->words[0].lines > search->most)
        search->most = (Py_ssize_t)search->lines;
    for (; search->word_count < known && search->word_count < search->most_words; search->word_count++) {
        Word *word = &search->words[search->word_count];
        search->is_cut = word->lines > search->most;
        if (search->is_cut)
            break;
        word->rarity = rarity_of(search->lines, (double)word->lines);
        word->common = search->is_pruned = seen >= search->enough;
        seen += word->lines;
    }
    return 0;
}

static int
look_for_words(Search *search, Shelf *shelves, Py_ssize_t shelf_count)
{
    for (int bit = 0; bit < search->word_count; bit++) {
        Word *word = &search->words[bit];
        for (Py_ssize_t at = 0; at < shelf_count; at++) {
            if (take_occurrences(search, &shelves[at], bit, word->places[at]) < 0)
                return -1;
        }
        if (!word->common)
            search->session_mass += weigh_sessions(search, shelves, shelf_count);
    }
    search->session_mass += search->days_session_rarity;
    return 0;
}

/* Days. */

static int
number_of(PyObject *number, const Shelf *shelf, uint32_t *found)
{
    unsigned long value = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return -1;
    if (value >= (unsigned long)shelf->size)
        return fail("there is no line with that number");
    *found = (uint32_t)value;
    return 0;
}

static int
look_for_days(Shelf *shelf)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    uint32_t number;
    while (PyDict_Next(shelf->days, &at, &key, &value)) {
        if (!PyFloat_CheckExact(value))
            return fail("the strength of a day is no number");
        double strength = PyFloat_AsDouble(value);
        if (number_of(key, shelf, &number) < 0)
            return -1;
        Hit *hit = find_hit(shelf, (int32_t)number);
        if (hit == NULL)
            hit = add_hit(shelf, number);
        Session *session = hit == NULL ? NULL : meet_session(shelf, number);
        if (session == NULL)
            return -1;
        hit->strength = strength;
        if (session->strength < strength)
            session->strength = strength;
    }
    return 0;
}

/* The first pass: compute the scores of match and session. */

static void
look_first(const Search *search, Shelf *shelf)
{
    double weight = search->by_session / search->session_mass;
    for (Py_ssize_t at = 0; at < shelf->met_count; at++) {
        Session *session = &shelf->met[at];
        double length = SESSION_LENGTH(shelf, session->number);
        double share = session->tops / (search->base + search->session_slope * length);
        session->worth = weight * (share + search->days_session_rarity * session->strength);
    }
    for (Py_ssize_t at = 0; at < shelf->hit_count; at++) {
        Hit *hit = &shelf->hits[at];
        hit->match = hit->tops / (search->base + search->slope * LENGTH(shelf, hit->number));
        hit->match += search->days_rarity * hit->strength;
        Session *session = find_session(shelf, hit->number);
        if (session->best < hit->match)
            session->best = hit->match;
        hit->first = search->by_first * hit->match + session->worth;
    }
    shelf->found_count = shelf->hit_count;
}

/* The greatest values of a sequence, as a min-heap. */
typedef struct {
    double *values;
    Py_ssize_t count, room;
} Greatest;

static void
offer(Greatest *greatest, double value)
{
    double *values = greatest->values;
    Py_ssize_t at = 0;
    if (greatest->room == 0)
        return;
    if (greatest->count < greatest->room) {
        at = greatest->count++;
        while (at && values[(at - 1) / 2] > value) {
            values[at] = values[(at - 1) / 2];
            at = (at - 1) / 2;
        }
    }
    else {
        if (value <= values[0])
            return;
        for (Py_ssize_t child; (child = 2 * at + 1) < greatest->count; at = child) {
            if (child + 1 < greatest->count && values[child + 1] < values[child])
                child++;
            if (values[child] >= value)
                break;
            values[at] = values[child];
        }
    }
    values[at] = value;
}

static void
leave_out(Shelf *shelf)
{
    for (Py_ssize_t at = 0; at < shelf->unwanted_count; at++) {
        Hit *hit = find_hit(shelf, (int32_t)shelf->unwanted[at]);
        if (hit != NULL)
            hit->out = 1;
    }
}

/* The least first score on the shortlist, which may have excluded lines on it or not. */
static double
least_of(const Shelf *shelves, Py_ssize_t shelf_count, Greatest *greatest, int with_out)
{
    Py_ssize_t all = 0;
    greatest->count = 0;
    for (Py_ssize_t at = 0; at < shelf_count; at++)
        for (Py_ssize_t hit = 0; hit < shelves[at].found_count; hit++)
            if (with_out || !shelves[at].hits[hit].out) {
                offer(greatest, shelves[at].hits[hit].first);
                all++;
            }
    return all > greatest->room ? greatest->values[0] : 0.0;
}

static int
choose_neighbour(Shelf *shelf, int32_t number)
{
    if (number < 0 || number >= shelf->size)
        return 0;
    Hit *hit = find_hit(shelf, number);
    if (hit == NULL) {
        hit = add_hit(shelf, (uint32_t)number);
        if (hit == NULL)
            return -1;
        Session *session = find_session(shelf, hit->number);
        hit->first = session == NULL ? 0.0 : session->worth;
    }
    if (!hit->chosen)
        hit->chosen = NEIGHBOUR;
    return 0;
}

static int
choose(Shelf *shelf, double least)
{
    for (Py_ssize_t at = 0; at < shelf->found_count; at++)
        shelf->hits[at].chosen = shelf->hits[at].first >= least ? CHOSEN : 0;
    for (Py_ssize_t at = 0; at < shelf->found_count; at++) {
        uint32_t number = shelf->hits[at].number;
        if (shelf->hits[at].chosen != CHOSEN)
            continue;
        if (choose_neighbour(shelf, PREVIOUS(shelf, number)) < 0 ||
            choose_neighbour(shelf, NEXT(shelf, number)) < 0)
            return -1;
    }
    leave_out(shelf);
    return 0;
}

/* The second pass. */

/* The sum of the rarities of the words and days that a line holds together with its neighbours. */
static double
cover_of(const Search *search, const Hit *hit, const Hit *before, const Hit *after)
{
    double covered = 0, strength = hit->strength;
    const Hit *around[] = {before, after};
    Held held = hit->held;
    for (int side = 0; side < 2; side++) {
        if (around[side] == NULL)
            continue;
        for (int at = 0; at < MOST_WORDS / 64; at++)
            held.bits[at] |= around[side]->held.bits[at];
        if (around[side]->strength > strength)
            strength = around[side]->strength;
    }
    for (Py_ssize_t bit = 0; bit < search->word_count; bit++)
        if (held.bits[bit / 64] >> bit % 64 & 1)
            covered += search->words[bit].rarity;
    return covered + search->days_rarity * strength;
}

static double
score_of(Search *search, const Shelf *shelf, Hit *hit, double whole_least)
{
    int32_t previous = PREVIOUS(shelf, hit->number), next = NEXT(shelf, hit->number);
    const Hit *before = find_hit(shelf, previous), *after = find_hit(shelf, next);
    const Session *session = find_session(shelf, hit->number);
    double context = cover_of(search, hit, before, after);
    hit->cover = cover_of(search, hit, NULL, NULL);
    if (hit->chosen == CHOSEN && hit->first >= whole_least) {
        if (search->best_cover < hit->cover)
            search->best_cover = hit->cover;
        if (search->best_context < context)
            search->best_context = context;
    }
    double score = search->by_match * hit->match + search->by_cover * hit->cover;
    if (session != NULL)
        score += session->worth + search->by_best * session->best;
    score += search->by_context * context;
    score += search->by_date * hit->strength;
    if (before != NULL && MARKS(shelf, previous) & search->asks)
        score += search->by_before * before->match;
    return score + search->marks[MARKS(shelf, hit->number)];
}

static double
substance_of(const Search *search, const Shelf *shelf, const Hit *hit)
{
    Py_ssize_t length = LENGTH(shelf, hit->number);
    return search->substances[length < search->length_count ? length : search->length_count - 1];
}

static int
add_ranked(PyObject *found, Py_ssize_t shelf, const Hit *hit)
{
    unsigned long long low = hit->held.bits[0], high = hit->held.bits[1];
    PyObject *ranked = Py_BuildValue("(nIdiKK)", shelf, hit->number, hit->score, (int)hit->out, low, high);
    int failed = ranked == NULL || PyList_Append(found, ranked) < 0;
    Py_XDECREF(ranked);
    return failed ? -1 : 0;
}

/* Return the lines that may be among the best: signals that only Python knows may still raise a score. Excluded lines
   with such a score are returned too, marked, because confidence is measured from the best of all. */
static PyObject *
weigh(Search *search, Shelf *shelves, Py_ssize_t shelf_count, Greatest *greatest, double whole_least)
{
    /* Python can add at most `most_of_line` to `least`. So a line whose `least` is further than that below the k-th
       best one cannot be among the best. */
    greatest->count = 0;
    greatest->room = search->k;
    for (Py_ssize_t at = 0; at < shelf_count; at++)
        for (Py_ssize_t place = 0; place < shelves[at].hit_count; place++) {
            Hit *hit = &shelves[at].hits[place];
            if (!hit->chosen)
                continue;
            hit->score = score_of(search, &shelves[at], hit, whole_least);
            hit->least = hit->score + substance_of(search, &shelves[at], hit);
            if (!hit->out)
                offer(greatest, hit->least);
        }
    double least = -INFINITY;
    if (greatest->count == greatest->room)
        least = greatest->room ? greatest->values[0] - search->most_of_line - ROUNDING : INFINITY;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t at = 0; at < shelf_count && found != NULL; at++)
        for (Py_ssize_t place = 0; place < shelves[at].hit_count && found != NULL; place++) {
            const Hit *hit = &shelves[at].hits[place];
            if (hit->chosen && hit->least >= least && add_ranked(found, at, hit) < 0)
                Py_CLEAR(found);
        }
    return found;
}

static PyObject *
rank(Search *search, PyObject *words, Shelf *shelves, Py_ssize_t shelf_count, Greatest *greatest)
{
    double mass = 0;
    if (choose_words(search, words, shelves, shelf_count) < 0)
        return NULL;
    for (Py_ssize_t bit = 0; bit < search->word_count; bit++)
        mass += search->words[bit].rarity;
    mass += search->days_rarity;
    if (mass == 0)
        Py_RETURN_NONE;
    /* A small memory does not know most words anyway, so an unknown word tells little there. */
    double told = search->lines / (search->lines + search->few);
    search->whole = mass + (double)search->unknown_count * rarity_of(search->lines, 0) * told;
    search->by_first = (search->by_match + search->by_cover) / mass;
    search->by_match /= mass;
    search->by_cover /= mass;
    search->by_best /= mass;
    search->by_context /= mass;
    search->by_before /= mass;
    if (look_for_words(search, shelves, shelf_count) < 0)
        return NULL;
    for (Py_ssize_t at = 0; at < shelf_count; at++) {
        if (look_for_days(&shelves[at]) < 0)
            return NULL;
        look_first(search, &shelves[at]);
        leave_out(&shelves[at]);
    }
    double whole_least = least_of(shelves, shelf_count, greatest, 1);
    Py_ssize_t unwanted = 0;
    for (Py_ssize_t at = 0; at < shelf_count; at++)
        unwanted += shelves[at].unwanted_count;
    double least = unwanted ? least_of(shelves, shelf_count, greatest, 0) : whole_least;
    for (Py_ssize_t at = 0; at < shelf_count; at++)
        if (choose(&shelves[at], least) < 0)
            return NULL;
    PyObject *found = weigh(search, shelves, shelf_count, greatest, whole_least);
    return found == NULL ? NULL : Py_BuildValue("(NNNdd)", found, PyBool_FromLong(search->is_pruned),
                                                PyBool_FromLong(search->is_cut), search->best_cover / search->whole,
                                                search->best_context / search->whole);
}

/* Reading Python's arguments. */

static int
open_shelf(Shelf *shelf, PyObject *given)
{
    PyObject *lengths, *sessions, *previous, *next, *marks, *session_lengths;
    if (!PyArg_ParseTuple(given, "(OOOOOOO!O!)O!", &lengths, &sessions, &previous, &next, &marks, &session_lengths,
                          &PyDict_Type, &shelf->postings, &PyDict_Type, &shelf->numbers, &PyDict_Type, &shelf->days))
        return -1;
    if (hold(lengths, &shelf->lengths, "H") < 0 || hold(sessions, &shelf->sessions, "I") < 0 ||
        hold(previous, &shelf->previous, "i") < 0 || hold(next, &shelf->next, "i") < 0 ||
        hold(marks, &shelf->marks, "B") < 0 || hold(session_lengths, &shelf->session_lengths, "I") < 0)
        return -1;
    shelf->size = count_of(&shelf->lengths);
    shelf->session_size = count_of(&shelf->session_lengths);
    if (count_of(&shelf->sessions) != shelf->size || count_of(&shelf->previous) != shelf->size ||
        count_of(&shelf->next) != shelf->size || count_of(&shelf->marks) != shelf->size)
        return fail("the columns of an index differ in length");
    shelf->places = PyMem_Calloc((size_t)shelf->size + 1, sizeof(uint32_t));
    shelf->session_places = PyMem_Calloc((size_t)shelf->session_size + 1, sizeof(uint32_t));
    if (shelf->places == NULL || shelf->session_places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static void
close_shelf(Shelf *shelf)
{
    Py_buffer *views[] = {&shelf->lengths, &shelf->sessions, &shelf->previous,
                          &shelf->next,    &shelf->marks,    &shelf->session_lengths};
    for (size_t at = 0; at < sizeof(views) / sizeof(*views); at++)
        PyBuffer_Release(views[at]);
    PyMem_Free(shelf->unwanted);
    PyMem_Free(shelf->places);
    PyMem_Free(shelf->session_places);
    PyMem_Free(shelf->hits);
    PyMem_Free(shelf->met);
}

/* Read the numbers of the excluded lines. */
static int
read_unwanted(Shelf *shelf, PyObject *without)
{
    shelf->unwanted = PyMem_Calloc((size_t)PyObject_Size(without) + 1, sizeof(uint32_t));
    PyObject *each = PyObject_GetIter(without), *name;
    if (shelf->unwanted == NULL || each == NULL) {
        Py_XDECREF(each);
        PyErr_NoMemory();
        return -1;
    }
    while ((name = PyIter_Next(each)) != NULL) {
        PyObject *number = PyDict_GetItemWithError(shelf->numbers, name);
        Py_DECREF(name);
        if (number != NULL && number_of(number, shelf, &shelf->unwanted[shelf->unwanted_count]) == 0)
            shelf->unwanted_count++;
        if (PyErr_Occurred())
            break;
    }
    Py_DECREF(each);
    return PyErr_Occurred() ? -1 : 0;
}

static Py_ssize_t
read_numbers(PyObject *given, double *numbers, Py_ssize_t room)
{
    Py_ssize_t count = PyTuple_Size(given);
    if (count > room || count < 1)
        return fail("a table has another length");
    for (Py_ssize_t at = 0; at < count; at++)
        numbers[at] = PyFloat_AsDouble(PyTuple_GetItem(given, at));
    return PyErr_Occurred() ? -1 : count;
}

static PyObject *
best(PyObject *module, PyObject *args)
{
    Search search = {0};
    PyObject *given, *words, *without, *marks, *substances, *found = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!OO!O!in(nnnn)(ddddddddddddddddd)", &PyList_Type, &given, &PyTuple_Type, &words,
                          &without, &PyTuple_Type, &marks, &PyTuple_Type, &substances, &search.asks, &search.k, &search.enough,
                          &search.most, &search.most_words, &search.shortlist, &search.base, &search.top,
                          &search.slope, &search.session_slope, &search.lines, &search.sessions, &search.by_match,
                          &search.by_cover, &search.by_session, &search.by_best, &search.by_context, &search.by_before, &search.by_date,
                          &search.most_of_line, &search.days_rarity, &search.days_session_rarity, &search.few))
        return NULL;
    search.length_count = read_numbers(substances, search.substances, MOST_LENGTHS);
    if (search.length_count < 0 || read_numbers(marks, search.marks, MOST_MARKS) < 0)
        return NULL;
    if (!PyFrozenSet_CheckExact(without)) {
        PyErr_SetString(PyExc_TypeError, "the lines that are not wanted are a frozen set");
        return NULL;
    }
    if (search.k < 0 || search.shortlist < 1 || search.most_words > MOST_WORDS) {
        fail("a limit is out of its bounds");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(given), opened = 0;
    Greatest greatest = {.room = search.shortlist};
    Shelf *shelves = PyMem_Calloc((size_t)count + 1, sizeof(Shelf));
    greatest.values = PyMem_Calloc((size_t)(search.k > search.shortlist ? search.k : search.shortlist), sizeof(double));
    if (shelves == NULL || greatest.values == NULL)
        PyErr_NoMemory();
    else {
        while (opened < count && open_shelf(&shelves[opened], PyList_GetItem(given, opened)) == 0 &&
               read_unwanted(&shelves[opened], without) == 0)
            opened++;
        if (opened == count)
            found = rank(&search, words, shelves, count, &greatest);
        for (Py_ssize_t at = 0; at < count; at++)
            close_shelf(&shelves[at]);
    }
    for (Py_ssize_t at = 0; search.places != NULL && at < search.place_count; at++)
        Py_XDECREF(search.places[at]);
    PyMem_Free(search.words);
    PyMem_Free(search.places);
    PyMem_Free(greatest.values);
    PyMem_Free(shelves);
    return found;
}

static PyMethodDef functions[] = {
    {"best", best, METH_VARARGS, "The lines that may be among the best."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "_kernel", .m_size = 0, .m_methods = functions, .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__kernel(void)
{
    return PyModuleDef_Init(&module);
}

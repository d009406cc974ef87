"""Chinese, Japanese and Korean expressions of time. The rules at the end are the grammar.

These scripts have no spaces between words, so a rule names the neighbouring characters with which it does not match:
每周五 is a repeating day, 3日間 is a duration, 5号线 is a railway line.
"""

from __future__ import annotations

import re

from strongroom.engines.dates.day_arithmetic import Days, dates, day, days, months, shifted_months, week, years
from strongroom.engines.dates.grammar import FIGURES, Rule
from strongroom.engines.dates.moment import FUTURE, OPEN, PAST, Moment

_DIGITS = {sign: at for at, sign in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2, "兩": 2}
_WEEKDAYS = (
    {sign: at for at, sign in enumerate("一二三四五六日")}
    | {sign: at for at, sign in enumerate("月火水木金土")}
    | {sign: at for at, sign in enumerate("월화수목금토일")}
    | {"天": 6}
)
_NAMED = {
    -3: "大前天",
    -2: "前天 一昨日 おととい 그저께 그제",
    -1: "昨天 昨日 昨晚 昨夜 어제",
    0: "今天 今日 今晚 今夜 今朝 오늘",
    1: "明天 明日 明晚 내일",
    2: "后天 後天 明後日 あさって 모레",
    3: "大后天 大後天",
}
_OFFSETS = {
    -2: "上上个 上上個 上上 先々 先先",
    -1: "上个 上個 上一个 上 先 지난",
    0: "这个 這個 这一 这 這 本 今 이번",
    1: "下个 下個 下一个 下 来 來 다음",
    2: "下下个 下下個 下下 再来",
}
_NAMED_YEARS = {
    -2: "前年",
    -1: "去年 昨年 작년 지난해",
    0: "今年 올해",
    1: "明年 来年 來年 내년",
    2: "后年 後年",
}
_NAMES = {word: offset for offset, words in _NAMED.items() for word in words.split()}
_SHIFTS = {word: offset for offset, words in _OFFSETS.items() for word in words.split()}
_YEARS = {word: offset for offset, words in _NAMED_YEARS.items() for word in words.split()}


def _either(words: dict[str, int]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_N = r"(?:[0-9]{1,3}|[一二三四五六七八九十两兩]{1,3})"
_M = r"(?:1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])"
_D = r"(?:3[01]|[12][0-9]|0?[1-9]|三十一?|二十[一二三四五六七八九]?|十[一二三四五六七八九]?|[一二三四五六七八九])"
_Y = r"(?:19[0-9]{2}|20[0-9]{2}|二[〇零][〇零一二三四五六七八九]{2})"
_TO = r"\s?(?:-|~|到|至|から|부터)\s?"
_NOT_NUMBER = r"(?<![0-9一二三四五六七八九十第])"


def _number(text: str) -> int:
    """The value of digits, of a number below 100 in characters, or of a year spelt digit by digit."""
    if text.isdigit() and text.isascii():
        return int(text)
    if len(text) == 4:
        return int("".join(str(_DIGITS[sign]) for sign in text))
    tens, _, ones = text.rpartition("十")
    if "十" not in text:
        return _DIGITS[text[-1]]
    return 10 * _DIGITS.get(tens, 1) + (_DIGITS[ones] if ones else 0)


def _around(moment: Moment, match: re.Match[str], options: list[list[Days]]) -> list[Days]:
    return moment.pick([at for option in options for at in option], match)


def _date(match: re.Match[str], moment: Moment) -> list[Days]:
    month, first = _number(match["m"]), _number(match["d"])
    last_month, last = (
        (_number(match["m2"]) if match["m2"] else month),
        (_number(match["d2"]) if match["d2"] else first),
    )

    def option(year: int) -> list[Days]:
        crossed = (last_month, last) < (month, first)
        return dates((year, month, first), (year + crossed, last_month, last))

    if match["y"]:
        return option(_number(match["y"]))
    if match["shift"]:
        return option(moment.year + _YEARS[match["shift"]])
    if moment.yearly(match):
        return [at for year in range(moment.year - 1, moment.year + 4) for at in option(year)]
    return _around(moment, match, [option(year) for year in range(moment.year - 2, moment.year + 4)])


def _month(match: re.Match[str], moment: Moment) -> list[Days]:
    month = _number(match["m"])
    if match["y"]:
        return months(_number(match["y"]), month)
    if match["shift"]:
        return months(moment.year + _YEARS[match["shift"]], month)
    return _around(moment, match, [months(year, month) for year in range(moment.year - 2, moment.year + 4)])


def _day_alone(match: re.Match[str], moment: Moment) -> list[Days]:
    index, number = moment.year * 12 + moment.month - 1, _number(match["d"])

    def option(offset: int) -> list[Days]:
        year, month = divmod(index + offset, 12)
        when = day(year, month + 1, number)
        return days(when, when)

    if match["shift"]:
        return option(_SHIFTS[match["shift"]])
    return moment.pick_near([at for offset in (-2, -1, 0, 1, 2) for at in option(offset)], match)


def _named(match: re.Match[str], moment: Moment) -> list[Days]:
    return moment.span(_NAMES[match[0]], _NAMES[match[0]])


def _in_week(match: re.Match[str], moment: Moment) -> list[Days]:
    """A week, its weekend or one of its days. In these languages, "next Friday" is always the Friday of next week."""
    monday, sunday = week(moment.today, _SHIFTS[match["shift"]])
    if match["end"]:
        return days(sunday - 1, sunday)
    if match["day"]:
        when = monday + _WEEKDAYS[match["day"]]
        return days(when, when)
    return days(monday, sunday)


def _weekday(match: re.Match[str], moment: Moment) -> list[Days]:
    coming = (_WEEKDAYS[match["day"]] - moment.today + 1) % 7
    return _nearest(moment, match, coming, 0)


def _weekend(match: re.Match[str], moment: Moment) -> list[Days]:
    sunday = week(moment.today)[1] - moment.today
    return _nearest(moment, match, sunday - 1, 1) if sunday > 1 else moment.span(sunday - 1, sunday)


def _nearest(moment: Moment, match: re.Match[str], coming: int, length: int) -> list[Days]:
    tense = moment.tense(match)
    offsets = {PAST: [coming - 7], FUTURE: [coming], OPEN: [coming - 7, coming]}[tense]
    if moment.asked and tense == OPEN:
        offsets = [min(offsets, key=abs)] if length == 0 else [coming]
    return [at for offset in offsets for at in moment.span(offset, offset + length)]


def _which_month(match: re.Match[str], moment: Moment) -> list[Days]:
    return months(moment.year, moment.month + _SHIFTS[match["shift"]])


def _which_year(match: re.Match[str], moment: Moment) -> list[Days]:
    return years(moment.year + _YEARS[match["shift"]])


def _year(match: re.Match[str], _: Moment) -> list[Days]:
    return years(_number(match["y"]))


def _shifted(moment: Moment, count: int, unit: str) -> int:
    if unit[0] in "年년":
        return shifted_months(moment.today, 12 * count)
    if unit[-1] in "月월달" or unit == "개월":
        return shifted_months(moment.today, count)
    return moment.today + count * (1 if unit in ("天", "日", "일") else 7)


def _counted(match: re.Match[str], moment: Moment) -> list[Days]:
    side = -1 if match["side"] in ("前", "以前", "之前", "전") else 1
    least, most = (2, 6) if match["n"] in ("几", "幾", "数", "數", "몇") else (_number(match["n"]),) * 2
    unit = match["unit"]
    slack = 0 if unit in ("天", "日", "일") else 183 if unit[0] in "年년" else 7 if unit[-1] in "月월달" else 2
    near, far = _shifted(moment, side * least, unit), _shifted(moment, side * most, unit)
    first, last = min(near, far) - slack, max(near, far) + slack
    return days(max(first, moment.today), last) if side > 0 else days(first, min(last, moment.today))


def _window(match: re.Match[str], moment: Moment) -> list[Days]:
    side = 1 if match["side"] in ("未来", "未來", "接下来", "接下來", "今後", "앞으로") else -1
    count = 6 if match["n"] in ("几", "幾", "数", "數", "몇") else _number(match["n"])
    end = _shifted(moment, side * count, match["unit"])
    return days(min(end, moment.today), max(end, moment.today))


def _recently(_: re.Match[str], moment: Moment) -> list[Days]:
    return moment.span(-30, 0) if moment.asked else []


_UNIT = r"(?P<unit>天|日|周|週間|週|[个個]?星期|个?礼拜|個?禮拜|[个個]月|[ヶかカケ]月|年|일|주일?|개월|달|년)"
_YEAR_FIRST = rf"(?:(?P<y>{_Y})[年년]\s?|(?P<shift>{_either(_YEARS)})(?:的|の)?\s?)?{_NOT_NUMBER}"
_SIGNS = "一 二 三 四 五 六 七 八 九 十 两 兩"
_FIRST_SHIFTS = " ".join({word[0] for word in _SHIFTS})
_FIRST_YEARS = " ".join({word[0] for word in _YEARS})
RULES: list[Rule] = [
    (
        f"{FIGURES} {_SIGNS} {_FIRST_YEARS}",
        rf"{_YEAR_FIRST}(?P<m>{_M})[月월]\s?(?P<d>{_D})(?:[日号號일]|(?=\s?(?:-|~|到|至)))"
        rf"(?:{_TO}(?:(?P<m2>{_M})[月월]\s?)?(?P<d2>{_D})[日号號일])?",
        _date,
    ),
    (f"{FIGURES} {_SIGNS} {_FIRST_YEARS}", rf"{_YEAR_FIRST}(?P<m>{_M})[月월](?![0-9曜요間间]|분|一次)", _month),
    (
        " ".join({word[0] for word in _NAMES}),
        rf"(?:{_either(_NAMES)})(?!香|头条|頭條)",
        _named,
    ),
    (
        _FIRST_SHIFTS,
        rf"(?<![每毎])(?P<shift>{_either(_SHIFTS)})\s?(?:周|週|星期|礼拜|禮拜|주)(?:(?P<end>末|말)"
        r"|(?:の|\s)?(?P<day>[一二三四五六日天](?![0-9一二三四五六七八九十])|[月火水木金土日](?=曜)|[월화수목금토일](?=요일))"
        r"(?:曜日?|요일)?)?",
        _in_week,
    ),
    (
        "周 星 礼 禮 週",
        r"(?<![每毎])(?:周|星期|礼拜|禮拜|週)(?P<day>[一二三四五六日天])(?![个個一二三四五六七八九十])",
        _weekday,
    ),
    ("月 火 水 木 金 土 日", r"(?<!毎週)(?<!毎)(?P<day>[月火水木金土日])曜日?", _weekday),
    ("월 화 수 목 금 토 일", r"(?<!매주 )(?<!매주)(?P<day>[월화수목금토일])요일", _weekday),
    ("周 週 주", r"(?<![每毎])(?:周末|週末|주말)", _weekend),
    (_FIRST_SHIFTS, rf"(?P<shift>{_either(_SHIFTS)})\s?(?:月|달)(?:的|の|\s)?(?P<d>{_D})[日号號일]", _day_alone),
    (_FIRST_SHIFTS, rf"(?P<shift>{_either(_SHIFTS)})\s?(?:月|달)", _which_month),
    (_FIRST_YEARS, rf"(?P<shift>{_either(_YEARS)})(?!度|级|級|代|輪)", _which_year),
    (f"{FIGURES} 二", rf"(?<![0-9])(?P<y>{_Y})[年년]", _year),
    (
        f"{FIGURES} {_SIGNS} 几 幾 数 數 몇",
        rf"{_NOT_NUMBER}(?P<n>{_N}|[几幾数數몇])\s?{_UNIT}\s?(?P<side>以前|之前|前|以后|以後|之后|之後|后|後|전|후|뒤)",
        _counted,
    ),
    (
        "过 過 最 这 這 こ 未 接 今 지 앞",
        r"(?P<side>过去|過去|最近|这|這|ここ|未来|未來|接下来|接下來|今後|지난|앞으로)(?:的|の)?\s?"
        rf"(?P<n>{_N}|[几幾数數몇])\s?{_UNIT}",
        _window,
    ),
    (
        f"{FIGURES} {_SIGNS}",
        rf"(?P<shift>){_NOT_NUMBER}(?<![年月월])(?P<d>{_D})(?:[号號](?![线線楼樓门門房院店机機码碼室车車館馆球字选選])"
        r"|日(?![間间前後后目本])|일(?![간전후]))",
        _day_alone,
    ),
    ("最 近 최 요", r"最近|近頃|近来|최근|요즘", _recently),
]
_FIRSTS = {first for firsts, _, _ in RULES for first in firsts.split()} - {FIGURES}
WORDS = f"[0-9]{{1,}}|[{''.join(sorted(_FIRSTS))}]"
"""The pattern of the first word or character of an expression of time."""
TRIGGER = re.compile(r"[日号號月年周週天星礼禮末今昨明后後前最近あお오내모어그최월년일요주달]")
"""A text without any of these characters is not searched, because no rule of this grammar can match it."""

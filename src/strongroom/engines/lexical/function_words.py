"""The most frequent function words of languages other than English, by Snowball's names of the languages."""

from __future__ import annotations

from collections.abc import Mapping

OF_LATIN_LETTERS: Mapping[str, str] = {
    "german": (
        "der die das den dem des ein eine einen einem einer eines und oder aber ich du er sie es wir ihr mich mir "
        "mein meine meinen meinem meiner dein deine sein seine unser unsere nicht kein keine ist sind war waren bin "
        "bist hat habe haben hatte wird werden wurde wie wo wann was wer wen wem warum wieso welche welcher welches "
        "welchen mit von vom zu zum zur bei beim auf aus an am im ins nach vor für über unter um bis seit auch noch "
        "schon nur so sehr mal dass ob wenn weil als dann doch man sich uns ihm ihn euch heißt gibt mag soll kann "
        "muss will viele viel"
    ),
    "french": (
        "le la les un une des du de et ou mais je tu il elle nous vous ils elles on me te se mon ma mes ton ta tes "
        "son sa ses notre nos votre vos leur leurs ne pas plus est sont était suis es sommes êtes ai as avons avez "
        "ont avait qui que quoi quel quelle quels quelles où quand comment pourquoi combien dans sur sous avec sans "
        "pour par chez vers entre à au aux en ce cet cette ces ça cela c'est l d j qu n m s t y si très aussi tout "
        "tous toute bien fait être avoir"
    ),
    "spanish": (
        "el la los las un una unos unas y o u pero yo tú él ella nosotros ellos me te se nos mi mis tu tus su sus "
        "nuestro nuestra no es son era fue ser estar está están estoy soy he ha han hay había que qué quién cuál "
        "cuáles dónde donde cuándo cuando cómo como cuánto cuántos cuántas por para con sin de del al a en sobre "
        "entre hasta desde muy más ya también lo le les este esta esto ese esa si porque tiene tengo voy va puede"
    ),
    "italian": (
        "il lo la i gli le un uno una e o ma io tu lui lei noi voi loro mi ti si ci vi mio mia miei mie tuo tua suo "
        "sua suoi nostro nostra non è sono era sei siamo ho hai ha abbiamo hanno che chi cosa quale quali dove quando "
        "come perché quanto quanti quante di del della dei delle dello degli da dal dalla in nel nella nei su sul "
        "sulla con per tra fra a al alla ai alle più molto anche già questo questa quello quella c'è l d dell nell "
        "all se essere fa"
    ),
    "portuguese": (
        "o a os as um uma uns umas e ou mas eu tu ele ela nós eles elas você vocês me te se nos meu minha meus minhas "
        "teu tua seu sua seus suas nosso nossa não é são era foi ser estar está estou tenho tem têm há que quem qual "
        "quais onde quando como quanto quantos quantas por para pelo pela com sem de do da dos das em no na nas num "
        "numa ao à às até desde muito mais já também isso este esta esse essa aquele lhe vou vai pode fica"
    ),
    "dutch": (
        "de het een en of maar ik jij je hij zij ze wij we jullie mij mijn jouw zijn haar ons onze hun niet geen is "
        "was waren ben bent heb heeft hebben had wordt worden wie wat waar wanneer hoe waarom welke welk met van voor "
        "naar bij op in uit aan om tot sinds over onder ook nog al alleen zo heel dat die dit deze er als dan toch te "
        "zal kan moet wil veel"
    ),
    "swedish": (
        "en ett den det de och eller men jag du han hon vi ni mig dig sig min mitt mina din ditt dina vår inte är var "
        "har hade blir vem vad när hur varför vilken vilket vilka med av från till på i för om hos under över också "
        "bara så mycket att som denna detta ska kan måste vill"
    ),
    "danish": (
        "en et den det de og eller men jeg du han hun vi i mig dig sig min mit mine din dit vores ikke er var har "
        "havde bliver hvem hvad hvor hvornår hvordan hvorfor hvilken hvilket hvilke med af fra til på for om hos "
        "under over også kun så meget at som denne dette skal kan må vil"
    ),
    "norwegian": (
        "en ei et den det de og eller men jeg du han hun vi dere meg deg seg min mitt mine din ditt vår ikke er var "
        "har hadde blir hvem hva hvor når hvordan hvorfor hvilken hvilket hvilke med av fra til på for om hos under "
        "over også bare så mye at som denne dette skal kan må vil"
    ),
    "polish": (
        "i a o w z na do od po za dla przez przy nie tak jest są był była było jestem mam ma mamy mają ja ty on ona "
        "my wy oni mnie mi mój moja moje moim mojej twój jego jej nasz się co kto gdzie kiedy jak dlaczego ile który "
        "która które czy to ten ta te tym tego już też tylko bardzo że żeby ale albo oraz będzie może"
    ),
    "turkish": (
        "bir ve veya ama ben sen o biz siz onlar benim senin onun bizim bana sana ona beni seni bu şu ne kim nerede "
        "nereye nereden neden niçin nasıl hangi kaç mi mı mu mü de da te ta den dan ten tan ile için gibi kadar çok "
        "daha en var yok değil her hiç şey olan olarak sonra önce nin nın nun nün ki ise"
    ),
    "indonesian": (
        "yang dan atau tetapi saya aku kamu dia kami kita mereka ini itu di ke dari untuk dengan pada adalah tidak "
        "bukan ada apa siapa mana kapan bagaimana mengapa berapa sudah belum akan sangat juga hanya oleh sebagai"
    ),
    "romanian": (
        "un o și sau dar eu tu el ea noi voi ei mă te se îmi meu mea mei tău sa nostru nu este e sunt era am ai are "
        "avem au ce cine care unde când cum de cât câte câți la în din cu fără pentru pe prin mai foarte acest "
        "această că să fi al ale lui"
    ),
    "hungarian": (
        "a az egy és vagy de én te ő mi ti ők nem van volt lesz vagyok mit ki hol hova mikor hogyan miért melyik "
        "mennyi hány hogy is már még csak nagyon ez ezt azt ezek meg ha mert"
    ),
    "finnish": (
        "ja tai mutta minä sinä hän me te he minun sinun hänen meidän ei on oli ovat olen olet ole mitä mikä kuka "
        "missä mihin milloin miten miksi kuinka monta se tämä ne nämä että kun jos myös vain hyvin jo vielä"
    ),
    "czech": (
        "a i o v z na do od po za pro přes při ne je jsou byl byla bylo jsem mám má máme já ty on ona my vy oni mě mi "
        "můj moje tvůj jeho její náš se co kdo kde kdy jak proč kolik který která které to ten ta už také jen velmi "
        "že ale nebo"
    ),
}
"""The languages in Latin letters. A text is recognised by these words."""

OF_OTHER_SCRIPTS: Mapping[str, str] = {
    "russian": (
        "и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было вот от "
        "меня еще нет о из ему когда даже ну ли если уже или ни быть был него до вас мой моя мое мои моей моего моем "
        "мою наш наша это этот эта где кто какой какая какие какое каком куда чем чему для мы их тебя сколько есть "
        "под над при без через после перед про тоже очень чтобы потом зачем почему"
    ),
    "greek": (
        "ο η το οι τα του της των τον την τους τις ενα ενας μια και ή αλλα εγω εσυ αυτος αυτη αυτο εμεις μου σου μας "
        "σας με σε για απο στο στη στην στον στα στις στους προς χωρις δεν μην ειναι ηταν ειμαι εχω εχει εχουμε που "
        "ποιος ποια ποιο ποτε πως γιατι ποσο ποσα ποσες τι να θα οτι οταν αν πολυ πιο επισης κι ως"
    ),
    "arabic": (
        "في من على إلى الى عن مع هذا هذه ذلك تلك التي الذي ما ماذا متى أين اين كيف لماذا كم هل أي اي أنا انا أنت هو "
        "هي نحن هم لا لم لن قد كان كانت يكون أن ان إن أو او و ثم بعد قبل عند لدي لي له لها كل بعض غير حتى لكن"
    ),
}
"""The languages that are recognised by their script."""

"""Requests to forget, and what only looks like one."""

from __future__ import annotations

import pytest

from strongroom.hermes.provider.forget_phrases import is_forget_request
from tests import labels

REQUESTS = """
Please delete my home address from your memory.
Forget that I ever mentioned Lisa.
could you please forget what we talked about yesterday
I'd like you to forget my credit card number.
Forget everything about my medical history.
Erase all notes about my job search.
Please remove what I told you about Tom.
Delete everything you remember about my sister.
You can forget my old email address now.
Forget about my diet plan.
Please forget this conversation.
Purge the memory of my PIN.
Don't keep anything about my health.
Kannst du bitte vergessen, dass ich umziehe?
Lösche bitte alles, was du über meine Gesundheit weißt.
Vergiss meine alte Adresse.
Bitte vergiss, was ich dir über Tom erzählt habe.
Entferne meinen Geburtstag aus deinem Speicher.
Por favor, olvida mi número de teléfono.
Borra todo lo que sabes de mí.
Oublie mon numéro de téléphone.
Supprime tout ce que tu sais sur moi.
Peux-tu oublier que je fume ?
Dimentica il mio indirizzo.
Puoi dimenticare quello che ti ho detto ieri?
Cancella dalla tua memoria il mio numero.
Esqueça o meu endereço, por favor.
Apaga da tua memória o meu número.
Podes esquecer o que te disse ontem?
Забудь, пожалуйста, мой адрес.
Удали из памяти мой номер телефона.
Забудь, что я говорил про Машу.
忘掉我说的话。
请把我的电话号码忘掉。
請忘記我的地址
私の住所を忘れてください。
今の話は忘れて。
내가 말한 주소를 잊어줘.
기억에서 내 전화번호를 지워줘.
"""
OTHERS = """
I can't remember my password.
Do you remember what I said about Lisa?
Please remember that I moved.
Forget Python, let's write it in Rust.
Remove all notes about deprecated functions from the README.
Delete everything in the downloads folder.
Clear the cache and restart.
Don't forget my birthday!
What did I forget to pack?
She asked me to forget her.
Forgive and forget, that's what my mother says.
Erase the third paragraph of the letter.
Save what I wrote to a file.
Can you delete the second row of the table?
Remove the word "very" from my text.
How can I make my ex forget me?
Please drop the index on users.email.
The garbage collector removes the object from memory.
I told you to forget nothing.
Wipe my screen with a soft cloth?
Forget the first version, use the second.
Ich habe vergessen, was ich sagen wollte.
Vergiss es.
Das darf ich nicht vergessen.
Lösche die Zeile 4 aus der Tabelle.
Hast du vergessen, was ich gesagt habe?
He olvidado mi contraseña.
Olvidé lo que iba a decir.
Elimina las filas duplicadas de la tabla.
J'ai oublié mon mot de passe.
Efface le tableau avant de partir.
Ho dimenticato quello che volevo dire.
Cancella il file di prova.
Esqueci a minha senha.
Apague a luz ao sair.
Я забыл свой пароль.
Удали временные файлы.
Не забудь мой день рождения.
我忘了密码怎么办？
请删除第三行。
请不要忘记我的生日。
パスワードを忘れました。
財布を忘れてきた。
忘れ物をした。
비밀번호를 잊어버렸어요.
이 파일을 삭제해 주세요.
forget that, let us go
"""


@pytest.mark.requirement("forget-request-told")
@pytest.mark.parametrize("text", OTHERS.strip().splitlines())
def test_talk_about_forgetting_is_no_request(text: str) -> None:
    assert not is_forget_request(text)


@pytest.mark.requirement("forget-request-told")
@pytest.mark.parametrize("text", REQUESTS.strip().splitlines())
def test_request_to_forget_is_recognised(text: str) -> None:
    assert is_forget_request(text)


@pytest.mark.parametrize("text", ["", ".", "\ud800", "forget", "。" * 5000, "please forget " * 2000])
def test_any_text_is_answered(text: str) -> None:
    assert is_forget_request(text) is False


def test_request_at_either_end_of_a_long_text_is_found() -> None:
    asked = "Please forget that my gym code is 5521."
    assert is_forget_request(asked + " and so on" * 20_000)
    assert is_forget_request("and so on. " * 20_000 + asked)


@pytest.mark.parametrize(
    "text",
    [
        "PLEASE FORGET that I smoke",
        "ｐｌｅａｓｅ ｆｏｒｇｅｔ ｔｈａｔ Ｉ ｓｍｏｋｅ",
        "please for\u200bget that I smoke",
    ],
)
def test_case_width_and_invisible_characters_hide_nothing(text: str) -> None:
    assert is_forget_request(text)


@pytest.mark.requirement("forget-request-told")
def test_labelled_requests_are_told_from_the_rest() -> None:
    found = labels.rows("forget_requests")
    assert len(found) > 100
    said = [row for row in found if is_forget_request(row["text"])]
    right = sum(row["is_request"] for row in said)
    assert right >= 0.95 * len(said)
    assert right >= 0.95 * sum(row["is_request"] for row in found)

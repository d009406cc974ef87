from tests.provider.conftest import *
def test_x(either):
    a = either.agent()
    print(say(a, TRIP)); print(say(a, "When is my trip?"))
    print(either.texts(), either.problems())
    b = either.agent("s2")
    print(b.prefetch("when is my trip?"))
    print(either.files(""))

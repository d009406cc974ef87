"""The demonstration behind `strongroom demo`: a story in numbered steps, each in fresh processes.

`report` holds the strict rules, `stage` the temporary place and its processes, `partner` those that go on beside the
story, `users` those of other users, `talk` what is said, `steps` the table. What a step does is in `remembering`,
`refusing`, `noticing`, `serving` (HTTP), `tooling` (MCP), `separating` (another user), `hosting` (memory providers),
`conversing`, `lasting` and `reaching` (the real Hermes), and `forgetting`. `fleet` is the stage with its memory in a
bucket; `fleetsteps` makes most of these steps there again, and `sharing` has those that only several workers need.
`hermes` is a home of that Hermes; its model is a script (`model_server`, `scripted`). `attacker`, `player`, `visitor`,
`intruder`, `gateway` and `driver` run as programs of their own: the first has the vault's files and no keys, the second
does what the command line has no verb for, the third has a server's address and a cap, the fourth is another user, the
fifth is a runtime that hosts providers, the last is run by Hermes' Python and drives its gateway. `diary` is such a
provider, as somebody else would write it for Hermes: it is copied to where a runtime looks for it, and never imported
from here.
"""

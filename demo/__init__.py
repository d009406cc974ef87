"""The long demonstration, `make demo`: a story in numbered steps, each in fresh processes. It is in no wheel.

`steps` is the table of all steps, and `chapters` has what they do. `stage` is the temporary place with its processes
(its base is that of the short `strongroom demo`), `fleet_stage` the same with its memory in a bucket, `hermes_home` a
home of the real Hermes. `report` holds the strict rules, `talk` what is said, `partner` a process that goes on beside
the story, `os_users` processes of other users. `programs` run by themselves. The model that Hermes talks to is a script
(`model_server`, `scripted_model`). `diary` is a memory provider, as somebody else would write it for Hermes: it is
copied to where a runtime looks for it, and never imported from here.
"""

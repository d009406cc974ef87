"""A conformance kit: puts any memory provider through the calls that runtimes make, and reports the outcome.

    from strongroom.host.conformance import check

    print(check("./my-provider").text())

The shell command is `strongroom provider check ./my-provider`. As tests, the checks run with `pytest -p
strongroom.host.conformance.plugin --provider ./my-provider`. Each check runs in a process of its own, with a private
home and a time limit. The outcome of a check is pass, fail, or not applicable, always with a reason.
"""

from __future__ import annotations

from strongroom.host.conformance.kit_report import Report
from strongroom.host.conformance.provider_under_test import Subject, subject_of
from strongroom.host.conformance.runner import CHECKS, check
from strongroom.host.conformance.verdict import Check, Outcome, Result

__all__ = ["CHECKS", "Check", "Outcome", "Report", "Result", "Subject", "check", "subject_of"]

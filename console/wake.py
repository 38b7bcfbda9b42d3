"""The names of the console's worker functions."""

RUN_OPERATIONS = "console.run_operations"
ANSWER_DOCTOR = "console.answer_doctor"

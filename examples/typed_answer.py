"""A typed answer: an object instead of text, checked by your own rule."""

from dataclasses import dataclass

from pure_agent_loop import Agent, Retry

LETTER = "Invoice 2031-17 for Ada Berg: two lamps at 40.00 each, delivery 5.00. To pay: 85.00."


@dataclass
class Invoice:
    number: str
    customer: str
    total: float


agent = Agent(output_type=Invoice)


@agent.output_check
def total_is_in_the_letter(invoice: Invoice) -> None:
    if f"{invoice.total:.2f}" not in LETTER:
        raise Retry(f"{invoice.total} is not an amount in the letter. Read it again.")


result = agent.run(LETTER)
invoice = result.unwrap()  # an Invoice, or an exception that says why there is none
print(f"{invoice.customer} pays {invoice.total:.2f} for {invoice.number}")
print(f"after {result.steps} answers of the model")

# Output:
# Ada Berg pays 85.00 for 2031-17
# after 2 answers of the model

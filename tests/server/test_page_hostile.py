"""What a model, a tool, or a title says runs nothing and loads nothing on the page."""

from __future__ import annotations

from tests.server.browser import Visit

from pure_agent_loop.testing import answer, call, deltas

EVIL = "http://127.0.0.1:9/evil"
SHOWN = 20  # of a long conversation, the page shows the newest texts only
RUN = "window.hacked=1;alert(1)"
HOSTILE = [
    f"<script>{RUN}</script>",
    f"<script src='{EVIL}.js'></script>",
    f"<ScRiPt>{RUN}</sCrIpT>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f"<img src=x onerror='{RUN}'>",
    f"<img src='{EVIL}.png'>",
    f"<img srcset='{EVIL}.png 1x'>",
    f"<picture><source srcset='{EVIL}.png'><img></picture>",
    f"<svg onload='{RUN}'></svg>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><image href='{EVIL}.png'/></svg>",
    f"<svg><use href='{EVIL}.svg#a'/></svg>",
    f"<svg><a xlink:href='javascript:{RUN}'><text>x</text></a></svg>",
    f"<svg><foreignObject><iframe src='{EVIL}'></iframe></foreignObject></svg>",
    f"<svg><animate onbegin='{RUN}' attributeName=x dur=1s></svg>",
    f"<svg><style>@import '{EVIL}.css';</style></svg>",
    f"<math><mtext><table><mglyph><style><img src=x onerror='{RUN}'></style></mglyph></table></mtext></math>",
    f"<iframe src='{EVIL}'></iframe>",
    f"<iframe srcdoc='<script>{RUN}</script>'></iframe>",
    f"<object data='{EVIL}'></object>",
    f"<embed src='{EVIL}'>",
    f"<link rel=stylesheet href='{EVIL}.css'>",
    f"<link rel=prefetch href='{EVIL}'>",
    f"<style>body{{background:url({EVIL}.png)}}</style>",
    f"<div style='background:url({EVIL}.png)'>x</div>",
    f"<meta http-equiv=refresh content='0;url={EVIL}'>",
    f"<base href='{EVIL}/'>",
    f"<form action='{EVIL}'><button autofocus onfocus='{RUN}'>x</button></form>",
    f"<input autofocus onfocus='{RUN}'>",
    f"<details open ontoggle='{RUN}'>x</details>",
    f"<video src='{EVIL}.mp4' autoplay onerror='{RUN}'></video>",
    f"<audio src='{EVIL}.mp3' autoplay></audio>",
    f"<body onload='{RUN}'>",
    f"<marquee onstart='{RUN}'>x</marquee>",
    f"<template><script>{RUN}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'></noscript>",
    f"<textarea></textarea><img src=x onerror={RUN}>",
    "<img name=getElementById><a id=app>x</a><form id=document></form>",
    f"<!--><img src=x onerror={RUN}>-->",
    f"<![CDATA[><img src=x onerror={RUN}>]]>",
    f"[click](javascript:{RUN})",
    f"[click](JaVaScRiPt:{RUN})",
    f"[click](java&#x0A;script:{RUN})",
    f"[click](&#106;avascript:{RUN})",
    f"[click](data:text/html,<script>{RUN}</script>)",
    f"[click](vbscript:{RUN})",
    "[click](/api/sessions)",
    "[click](//127.0.0.1:9/evil)",
    f'[click](x" onmouseover="{RUN})',
    f"[click]({EVIL} 'a\" onmouseover=\"{RUN}')",
    f"[r]: javascript:{RUN}\n\n[click][r]",
    f"<javascript:{RUN}>",
    f"![x]({EVIL}.png)",
    "![x](/api/me)",
    f"![x]({EVIL}.png 'a\" onerror=\"{RUN}')",
    f'![" onerror="{RUN}](data:image/png;base64,AAAA)',
    "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+)",
    f'![x](data:image/png;base64,AAAA" onerror="{RUN})',
    f"![r]\n\n[r]: {EVIL}.png",
    f'```"><img src=x onerror={RUN}>\ncode\n```',
    f"```html\n<script>{RUN}</script><img src={EVIL}.png>\n```",
    f"```python\n</code></pre><img src=x onerror={RUN}>\n```",
    f"`<img src=x onerror={RUN}>`",
    f"| a |\n|---|\n| <img src=x onerror={RUN}> |",
    f"- <img src=x onerror={RUN}>\n  - ![x]({EVIL}.png)",
    f"> <iframe src={EVIL}>",
    f"# <img src=x onerror={RUN}>",
    f"<a href='javascript:{RUN}'>x</a>",
    f"<a href='{EVIL}' ping='{EVIL}'>x</a>",
    f"\u202e<img src=x onerror={RUN}>\u202c",
    f"&lt;img src=x onerror={RUN}&gt;",
    f"<p>*<img src=x onerror={RUN}>*</p>",
    f"<x:script xmlns:x='http://www.w3.org/1999/xhtml'>{RUN}</x:script>",
    f"<dialog open><button formaction='javascript:{RUN}'>x</button></dialog>",
    f"<portal src='{EVIL}'></portal>",
    f"<isindex action=javascript:{RUN} type=image>",
    f"<select><template shadowrootmode=open><img src=x onerror={RUN}></template></select>",
    "constructor __proto__ [[toString]](x) {{7*7}} ${7*7} #{7*7}",
    f"]]><img src=x onerror={RUN}>",
    f"<plaintext><img src=x onerror={RUN}>",
    f"$\\href{{javascript:{RUN}}}{{x}}$ and $\\includegraphics{{{EVIL}.png}}$",
    f"$\\style{{background:url({EVIL})}}{{x}}$ and $\\textcolor{{url({EVIL})}}{{x}}$",
    f"$\\text{{</math><img src=x onerror={RUN}>}}$",
    f"$$\\class{{call}}{{\\id{{app}}{{\\data{{onclick={RUN}}}{{x}}}}}}$$",
    "$\\def\\a#1{\\a{#1#1}}\\a{z}$ and $\\rule{99999em}{99999em}$",
    "$" + "{" * 3_000 + "x" + "}" * 3_000 + "$",
    f"```math\n\\url{{{EVIL}}}<svg onload={RUN}>\n```",
    "[x](https:javascript:alert(1)) [x](blob:http://x/y)",
]
# Elements that load, run or frame something, and attributes that do: none may come from what somebody said.
FOREIGN = """
() => [...document.querySelectorAll(".log *, .side *, header *")].flatMap((each) => {
  const found = [];
  const loads = ["script", "iframe", "object", "embed", "link", "style", "meta", "base", "video", "audio",
    "source", "template", "portal", "foreignobject", "use", "image"];
  const link = /^(https?:|mailto:|#|\\/api\\/sessions\\/[\\w.-]+\\/export)/i;
  const image = /^(data:image\\/(png|jpeg|gif|webp);base64,|assets\\/icon\\.svg$)/;
  if (loads.includes(each.localName.toLowerCase())) found.push(each.outerHTML);
  for (const { name, value } of each.attributes) {
    if (/^on/i.test(name) || ["style", "ping", "srcset", "srcdoc"].includes(name)) found.push(name);
    if (name === "href" && !link.test(value)) found.push(value);
    if (name === "src" && !image.test(value)) found.push(value);
  }
  return found;
})
"""


def calm(visit):
    """Nothing ran, nothing was asked for, and not even the policy had to step in."""
    page = visit.page
    assert page.evaluate("window.hacked") is None
    assert page.evaluate(FOREIGN) == []
    assert page.evaluate("window.violations") == []
    assert [each for each in visit.requests if "evil" in each or not each.startswith(visit.server.url)] == [
        each for each in visit.requests if each.startswith("data:")
    ]
    assert len(visit.context.pages) == 1
    visit.close()


def test_there_are_enough_of_them():
    assert len(set(HOSTILE)) == len(HOSTILE) >= 80


def test_in_answers_at_once_and_piece_by_piece(serve, browser):
    whole = "\n\n".join(HOSTILE)
    pieces = [whole[at : at + 37] for at in range(0, len(whole), 37)]
    groups = [HOSTILE[at : at + SHOWN] for at in range(0, len(HOSTILE), SHOWN)]
    script = []
    for *texts, last in groups:
        script += [answer(text, call("add", a=number, b=1)) for number, text in enumerate(texts)] + [last]
    visit = Visit(browser, serve([*script, deltas(*pieces)])).enter()
    for group in groups:
        visit.page.get_by_role("button", name="New conversation").click()
        visit.say("next")
        visit.wait(".answer", len(group))
        visit.wait(".end")
        assert visit.page.evaluate(FOREIGN) == []
    visit.page.reload()
    visit.wait(".answer", len(groups[-1]))
    visit.page.get_by_role("button", name="New conversation").click()
    visit.say("all of it")
    visit.wait(".end")
    calm(visit)


def test_in_arguments_results_questions_and_titles(serve, browser):
    script = []
    for text in HOSTILE[::4]:
        script += [call("danger", what=text), "Done."]
    visit = Visit(browser, serve(script)).enter()
    for number, text in enumerate(HOSTILE[::4]):
        visit.say(text)
        visit.page.get_by_role("button", name="Allow", exact=True).click()
        visit.wait(".end", number + 1)
        visit.page.locator(".call summary").last.click()
    visit.page.get_by_role("button", name="New conversation").click()
    assert visit.page.locator(".session .title").first.inner_text() == HOSTILE[0]
    calm(visit)

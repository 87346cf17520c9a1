"""Key patterns of well-known services: a service prefix, then random letters."""

from __future__ import annotations

import re

from pure_agent_loop.support.lazy import lazy_pattern

# Patterns that must follow the prefix of a key, by prefix.
_PREFIXED = {
    # OpenAI, Anthropic, OpenRouter: with a run of letters and digits, which CSS class names lack
    "sk-": r"(?=[A-Za-z0-9_-]{0,120}?(?=[A-Za-z]{0,30}[0-9])[A-Za-z0-9]{14})[A-Za-z0-9_-]{20,}",
    "github_pat_": r"[A-Za-z0-9_]{30,}",
    "ya29.": r"[A-Za-z0-9._-]{20,}",
    "AIza": r"[A-Za-z0-9_-]{35}",
    "GOCSPX-": r"[A-Za-z0-9_-]{28}",
    "SG.": r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "sl.": r"[A-Za-z0-9_-]{60,}",
    "AGE-SECRET-KEY-1": r"[A-Z0-9]{50,}",
    "EAA": r"(?=[A-Za-z]{0,60}[0-9])[A-Za-z0-9_-]{58,}",  # Facebook, Square
    "FwoGZXIvYXdz": r"[A-Za-z0-9+/=]{40,}",  # AWS session tokens
    "IQoJb3JpZ2lu": r"[A-Za-z0-9+/=]{40,}",
    "AKCp": r"(?=[A-Za-z]{0,60}[0-9])[A-Za-z0-9]{60,}",  # JFrog
    "CCIPAT_": r"[A-Za-z0-9]{20,}_[0-9a-f]{40}",
    "xkeysib-": r"[0-9a-f]{64}-[A-Za-z0-9]{16}",
    "oy2": r"(?=[a-z]{0,42}[2-7])[a-z2-7]{43}(?![A-Za-z0-9])",  # NuGet
    "sk.eyJ": r"[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",  # Mapbox
    "eyJ": r"[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}",  # JSON web token
}
_PREFIXES = {  # prefixes of keys, by the pattern that must follow them
    r"[A-Za-z0-9]{30,}": "ghp_ gho_ ghu_ ghs_ ghr_ hf_ api_org_ npm_ "
    "pplx- gsk_ xai- r8_ csk- fw_ tvly- fc- jina_",
    r"[A-Za-z0-9_.-]{20,}": "glpat- gldt- glrt- glcbt- glptt- glft- gloas- "
    "glsa_ glc_ nvapi- tgp_v1_ hvs. hvb. hvr.",
    r"[A-Za-z0-9_=-]{20,}": "ATATT3x ATCTT3x ATBB sq0atp- sq0csp- dckr_pat_ "
    "dckr_oat_ figd_ CFPAT- BBDC- tskey- sntrys_",
    r"[A-Za-z0-9-]{10,}": "xoxb- xoxa- xoxp- xoxr- xoxs- xoxe- xoxc- xoxd- xapp- xoxe.xoxp-",
    r"[A-Z0-9]{16}(?![A-Za-z0-9])": "AKIA ASIA ABIA ACCA",
    r"[0-9a-f]{32}(?![A-Za-z0-9])": "shpat_ shpss_ shpca_ shppa_ dapi SK key-",
    r"[0-9a-f]{32}_[0-9a-f]{8,}": "lsv2_pt_ lsv2_sk_",
    r"[0-9a-f]{40}(?![A-Za-z0-9])": "pul- sqp_ squ_ sqa_ bkua_",
    r"[0-9a-f]{48}(?![A-Za-z0-9])": "sk_",
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}": "pat-na1- pat-na2- pat-eu1-",
    r"[A-Za-z0-9]{14,}": "rzp_live_ rzp_test_",
    r"[A-Za-z0-9]{34,}": "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit. nfp_",
    r"[A-Za-z0-9]{16,}": "rk_live_ sk_live_ rk_test_ sk_test_ whsec_ lin_api_ "
    "lin_oauth_ NRAK- PMAK- secret_ ntn_ sntryu_",
    r"[A-Za-z0-9]{20,}": "rubygems_ pscale_tkn_ pscale_pw_ sbp_ sb_secret_ "
    "rnd_ HRKU- phx_ dop_v1_ doo_v1_ dor_v1_",
    r"[A-Za-z0-9_-]{50,}": "pypi- ops_eyJ fm2_ fo1_",
    r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}": "re_",
}
# Telegram and Discord bots, Azure, Mailchimp, Terraform, Google's refresh tokens, Airtable; then webhooks.
_WHOLE = (
    r"(?:bot)?[0-9]{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
    r"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    r"[A-Za-z0-9_~.]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}",
    r"[0-9a-f]{32}-us[0-9]{1,2}(?![0-9])",
    r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}",
    r"1//0[A-Za-z0-9_-]{30,}",
    r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}",
)
_AFTER = (
    r"(?<=hooks\.slack\.com/services/)[A-Z0-9]{6,}/[A-Z0-9]{6,}/[A-Za-z0-9]{16,}",
    r"(?<=hooks\.slack\.com/triggers/)[A-Za-z0-9/]{20,}",
    r"(?<=hooks\.slack\.com/workflows/)[A-Za-z0-9/]{20,}",
    r"(?<=/webhooks/)[0-9]{15,20}/[A-Za-z0-9_-]{40,}",
    r"(?<=/IncomingWebhook/)[0-9a-f]{32}/[0-9a-f-]{36}(?:/[A-Za-z0-9_-]+)?",
    r"(?<=/hooks/catch/)[0-9]+/[A-Za-z0-9]{5,}",
    r"(?<=/hooks/)[a-z0-9]{26}(?![A-Za-z0-9])",
    r"(?<=SSWS )00[A-Za-z0-9_-]{40}",  # Okta
    r"(?<=\"auth\": \")[A-Za-z0-9+/]{12,}={0,2}",  # Docker: user name and password
    r"(?<=\"auth\":\")[A-Za-z0-9+/]{12,}={0,2}",
    r"(?<=://)[A-Za-z0-9_-]{16,}(?=@)",  # a token in place of user and password in a URL
)
# A key does not begin inside a word, but may begin after an escape of JSON, a URL or a terminal.
_BEFORE = (
    "(?:"
    + "|".join(
        (
            r"(?<![A-Za-z0-9_-])",
            r"(?<=\\[nrtbf])",
            r"(?<=\\u[0-9A-Fa-f]{4})",
            r"(?<=%[0-9A-Fa-f]{2})",
            r"(?<=[0-9\[]m)",
        )
    )
    + ")"
)


def _pattern() -> re.Pattern[str]:
    prefixed = [re.escape(prefix) + rest for prefix, rest in _PREFIXED.items()]
    for rest, prefixes in _PREFIXES.items():
        prefixed.append(f"(?:{'|'.join(map(re.escape, prefixes.split()))}){rest}")
    return lazy_pattern(f"{_BEFORE}(?:{'|'.join((*prefixed, *_WHOLE))})|{'|'.join(_AFTER)}")


KEYS = _pattern()

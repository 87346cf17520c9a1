// Changes to the Worker that the site's search runs in. Each page loads this file before the search.

// Browsers start no workers for pages opened from a folder. There, run a worker's script in a hidden frame instead:
// the search works without a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #started; // when the script has run

    constructor(address) {
      super();
      this.#frame.hidden = true;
      document.documentElement.append(this.#frame);
      const room = this.#frame.contentWindow;
      room.postMessage = (data) => setTimeout(() => this.#deliver(structuredClone(data))); // as from a worker: later
      const script = room.document.createElement("script");
      script.src = address;
      this.#started = new Promise((done) => script.addEventListener("load", done));
      room.document.documentElement.append(script);
    }

    #deliver(data) {
      const message = new MessageEvent("message", { data });
      this.dispatchEvent(message);
      this.onmessage?.(message);
    }

    postMessage(data) {
      const copy = structuredClone(data); // the search writes into a query, which the page sends again
      this.#started.then(() =>
        this.#frame.contentWindow?.dispatchEvent(new MessageEvent("message", { data: copy })),
      );
    }

    terminate() {
      this.#frame.remove();
    }
  };
}

// The index holds every language. Search only the pages in the language of this one.
{
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...others) {
    const index = message.data;
    if (index?.items) {
      const { base } = JSON.parse(document.getElementById("__config").textContent);
      const chinese = new URL(`${base}/zh/`, location).href;
      const here = location.href.startsWith(chinese);
      // In place: the page looks up what the worker finds by its place in this list.
      index.items = index.items.filter((item) => item.location.startsWith(chinese) === here);
      index.config.lang = [here ? "zh" : "en"]; // how words are told apart
    }
    post.call(this, message, ...others);
  };
}

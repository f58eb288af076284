/* Run the search's worker in a hidden frame where browsers refuse workers: on pages opened from a disk. */
class FrameWorker extends EventTarget {
  constructor(url) {
    super()
    this.frame = document.createElement("iframe")
    this.frame.hidden = true
    document.body.appendChild(this.frame)
    const inside = this.frame.contentWindow
    inside.postMessage = data => {
      const message = new MessageEvent("message", { data })
      this.dispatchEvent(message)
      if (this.onmessage) this.onmessage(message)
    }
    const load = source => new Promise((resolve, reject) => {
      const script = inside.document.createElement("script")
      Object.assign(script, { src: source, onload: resolve, onerror: reject })
      inside.document.body.appendChild(script)
    })
    inside.importScripts = (...sources) => sources.reduce((last, source) => last.then(() => load(source)), Promise.resolve())
    this.ready = load(url)
  }

  postMessage(data) {
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
  }

  terminate() {
    this.frame.remove()
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker

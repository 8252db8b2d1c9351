/** Log lines of an agent by topic: a state is logged once, and again after it has ended. */
import type { AgentLog } from "./outside.ts";

export class StateLog {
  readonly #log: AgentLog;
  readonly #logged = new Map<string, string>();

  constructor(log: AgentLog) {
    this.#log = log;
  }

  /** Logs a message of a topic unless it was the topic's last one. */
  note(topic: string, level: "info" | "warn", message: string): void {
    if (this.#logged.get(topic) === message) return;
    this.#logged.set(topic, message);
    this.#log(level, message);
  }

  /** The topic has nothing to log any more, so that its next message is logged. */
  clear(topic: string): void {
    this.#logged.delete(topic);
  }
}

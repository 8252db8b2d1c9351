/** A zone is made smaller: its pods are told first, one of them refuses at first, and the other zones must wait. */
import { setTimeout as sleep } from "node:timers/promises";
import type { StoredPod } from "../fake-cluster/objects.ts";
import type { Journal } from "../support/journal.ts";
import { type Stage, shutdownPath } from "./stage.ts";

/** A pod takes this long to answer, so that viewers see it being told. */
const slowMs = 600;
const retryMs = 500;
const pollMs = 50;

export interface DownscaleOptions {
  readonly stage: Stage;
  readonly journal: Journal;
  /** Pods in each zone, before. */
  readonly pods: number;
  readonly signal: AbortSignal;
}

export class Downscale {
  endedMs: number | undefined;
  /** Messages of the API server, each once, in order of their first appearance. */
  readonly refusals: string[] = [];
  readonly #options: DownscaleOptions;
  readonly #zone: string;
  readonly #to: number;
  #last: string | undefined;

  constructor(options: DownscaleOptions) {
    const { stage, pods } = options;
    this.#options = options;
    this.#zone = stage.group.statefulSets[0]?.name ?? "";
    this.#to = pods - Math.max(1, Math.floor(pods / 4));
  }

  /** Why the last request was refused. */
  get last(): string | undefined {
    return this.#last;
  }

  /** The progress, for the picture. */
  get reached(): string {
    const { pods, stage } = this.#options;
    const leaving = this.#leaving();
    const prepared = leaving.filter((name) => this.#isPrepared(name)).length;
    const gone = leaving.filter((name) => stage.world.store.find("pods", this.#keyOf(name)) === undefined).length;
    const state = gone > 0 ? `${gone} gone` : `${prepared} told and willing`;
    return `${this.#zone} from ${pods} to ${this.#to}: of ${leaving.length} pods ${state}`;
  }

  /** True for a pod that has agreed to leave. */
  isNotified({ metadata: { name } }: StoredPod): boolean {
    return this.#isPrepared(name);
  }

  /** Resolves when the zone is smaller and the other zone has been refused. Rejects when the signal is aborted. */
  async play(): Promise<void> {
    const { stage, journal, pods } = this.#options;
    const { ingesters, group } = stage;
    stage.referee.endDryRuns();
    const [stubborn = "", ...others] = this.#leaving().reverse();
    for (const name of others) ingesters.behave(name, { slowMs });
    ingesters.behave(stubborn, "refuse");
    journal.add(
      this.#zone,
      `a user asks for ${this.#to} pods of ${this.#zone} instead of ${pods}; ${stubborn} is locked`,
    );
    await this.#until(async () => (await this.#ask(this.#zone)).includes(stubborn));
    ingesters.behave(stubborn, { slowMs });
    journal.add(this.#zone, `${stubborn} is unlocked; the user asks again`);
    await this.#until(async () => (await this.#ask(this.#zone)) === "");
    journal.add(this.#zone, `${this.#zone} may be smaller: each pod that leaves has been told`);
    const other = group.statefulSets[1]?.name ?? "";
    journal.add(other, `a user asks for ${this.#to} pods of ${other}, too`);
    if ((await this.#ask(other)) === "") throw new Error(`${other} was made smaller beside ${this.#zone}`);
    await this.#until(() => this.#leaving().every((name) => !stage.world.store.find("pods", this.#keyOf(name))));
    this.endedMs = journal.nowMs;
    journal.add(this.#zone, `${this.#zone} has ${this.#to} pods`);
  }

  async #until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isSo())) await sleep(this.#last === undefined ? pollMs : retryMs, undefined, this.#options);
  }

  /** Scales as `kubectl scale` does. Resolves to the message of a refusal, or to an empty text if the size was changed. */
  async #ask(name: string): Promise<string> {
    const { stage, journal, signal } = this.#options;
    const { namespace } = stage.group;
    const answer = await fetch(`${stage.served.url}/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}/scale`, {
      method: "PATCH",
      headers: { "content-type": "application/merge-patch+json", "user-agent": "kubectl" },
      body: JSON.stringify({ spec: { replicas: this.#to } }),
      signal,
    });
    if (answer.ok) return "";
    const { message = "" } = (await answer.json()) as { readonly message?: string };
    const text = message.replace(/^.* denied the request: /, "");
    this.#last = text;
    if (!this.refusals.includes(text)) {
      this.refusals.push(text);
      journal.add(name, `refused with ${answer.status}: ${text}`);
    }
    return text;
  }

  #leaving(): string[] {
    const { pods } = this.#options;
    return Array.from({ length: pods - this.#to }, (_, index) => `${this.#zone}-${this.#to + index}`);
  }

  #isPrepared(name: string): boolean {
    return this.#options.stage.ingesters.preparedSince(name, shutdownPath) !== undefined;
  }

  #keyOf(name: string) {
    return { namespace: this.#options.stage.group.namespace, name };
  }
}

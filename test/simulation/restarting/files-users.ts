/**
 * Users who change the Secrets with the files of processes: good files and broken ones, which they mend or take back, and
 * settings that all nodes must have in common, in one Secret after the other. They also lose Secrets, and make them anew.
 */
import type { StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import type { SeedRun } from "../seed.ts";
import { phaseKey } from "./raw-claims.ts";
import { type Content, configKey, modeKey, mountedOf, type ProcessSecrets } from "./secrets.ts";

export interface FilesUsersOptions {
  readonly run: SeedRun;
  readonly secrets: ProcessSecrets;
  readonly sets: () => readonly StoredStatefulSet[];
  readonly pods: () => readonly StoredPod[];
  readonly write: (pod: string, phase: string | null) => void;
}

const modes = ["rolling", "coordinated", "by-hand", "sometimes"];
const reasonKey = "sluice.dev/restart-reason";

export class FilesUsers {
  readonly #options: FilesUsersOptions;
  #version = 1;
  #settings = 1;
  #secretsMade = 0;
  /** The files that a StatefulSet's Secret had before, the good ones. */
  readonly #before = new Map<string, Content>();

  constructor(options: FilesUsersOptions) {
    this.#options = options;
  }

  /** What they may do next, where chance has drawn a pod. */
  deedsTo({ metadata }: StoredPod): readonly (() => void)[] {
    const set = setNameOf(metadata.name);
    const change = () => this.#change(set);
    const ofFiles = [
      ...[change, change, () => this.#changeAll(), () => this.#revert(set)],
      ...[() => this.#spoil(set, "broken"), () => this.#spoil(set, "broken"), () => this.#spoil(set, "unreadable")],
      ...[() => this.#coordinate(), () => this.#coordinate(), () => this.#setMode(set)],
      ...[() => this.#lose(set), () => this.#freeze(set), () => this.#rename(set), () => this.#editMounted(set)],
    ];
    if (this.#options.run.plan.restarts?.isCollecting === true)
      return [change, ...[1, 2, 3].map(() => () => this.#rename(set)), () => this.#nameBefore(set)];
    return [...ofFiles, () => this.#ask(metadata.name), () => this.#options.write(metadata.name, "cancel")];
  }

  get #sets(): readonly string[] {
    return this.#options.sets().map(({ metadata }) => metadata.name);
  }

  #later(ms: number, deed: () => void): void {
    const { world, isFaulty } = this.#options.run;
    world.timeline.after(ms, () => {
      if (isFaulty()) deed();
    });
  }

  #contentOf(secret: string): Content | undefined {
    const { secrets } = this.#options;
    return secrets.contentOf(secrets.sumIn(secret));
  }

  #expected(set: string): Content | undefined {
    return this.#contentOf(this.#options.secrets.expectedOf(set));
  }

  /** True while nothing differs that all nodes must have in common: then a process may start with new files alone. */
  #isAgreed(): boolean {
    const contents = this.#sets.flatMap((set) => [this.#expected(set), this.#contentOf(mountedOf(set))]);
    const isAsked = this.#options.pods().some(({ metadata: { annotations = {} } }) => {
      const phase = annotations[phaseKey];
      return phase !== undefined && annotations[reasonKey] === undefined;
    });
    return !isAsked && new Set(contents.map((one) => one?.setting ?? "")).size === 1;
  }

  /** Writes good files into the expected Secret, which stays as it is where it is not there. */
  #change(set: string, changes: Partial<Content> = {}): void {
    const now = this.#expected(set) ?? this.#before.get(set);
    const setting = now?.setting ?? "one";
    this.#write(set, { version: ++this.#version, kind: "good", setting, ...changes });
  }

  #write(set: string, content: Content): void {
    const { secrets, run } = this.#options;
    const name = secrets.expectedOf(set);
    if (secrets.find(name) === undefined) return;
    const now = this.#expected(set);
    if (now?.kind === "good") this.#before.set(set, now);
    secrets.write(name, content);
    run.log("users", `${name} gets ${secrets.describe(secrets.sumIn(name))}`);
  }

  #changeAll(): void {
    let ms = 0;
    for (const set of this.#sets) {
      this.#later(ms, () => this.#change(set));
      ms += this.#options.run.draw.between(100, 10_000);
    }
  }

  #revert(set: string): void {
    const before = this.#before.get(set);
    const now = this.#expected(set);
    if (before !== undefined && before.setting === now?.setting) this.#write(set, before);
  }

  /** Some mend such files, and some take them back. */
  #spoil(set: string, kind: "broken" | "unreadable"): void {
    const { draw } = this.#options.run;
    this.#change(set, { kind });
    this.#later(draw.between(5_000, 120_000), () => (draw.chance(0.3) ? this.#revert(set) : this.#change(set)));
  }

  /** One Secret after the other. Some think better of it after the first one. */
  #coordinate(): void {
    const { draw } = this.#options.run;
    if (!this.#isAgreed()) return;
    const setting = `s${++this.#settings}`;
    const [first = "", ...others] = draw.chance(0.5) ? this.#sets : this.#sets.toReversed();
    const before = this.#expected(first);
    this.#mode(first, null);
    this.#change(first, { setting });
    let ms = draw.between(500, 40_000);
    if (before !== undefined && draw.chance(0.2)) {
      this.#later(ms, () => this.#write(first, before));
      return;
    }
    for (const set of others) {
      this.#later(ms, () => {
        this.#mode(set, null);
        this.#change(set, { setting });
      });
      ms += draw.between(500, 40_000);
    }
  }

  /** Only while all agree: a node that is rolled with another setting would not join the others. */
  #setMode(set: string): void {
    const { draw } = this.#options.run;
    if (!this.#isAgreed()) return;
    this.#mode(set, draw.pick(modes));
    this.#later(draw.between(10_000, 60_000), () => this.#mode(set, null));
  }

  decideMode(): void {
    for (const set of this.#sets) this.#mode(set, "coordinated");
  }

  #mode(set: string, mode: string | null): void {
    const { secrets, run } = this.#options;
    const name = secrets.expectedOf(set);
    if (secrets.find(name) === undefined) return;
    run.world.annotate({ namespace: run.namespace, name }, { [modeKey]: mode }, "secrets");
    if (mode !== null) run.log("users", `write mode ${mode} on ${name}`);
  }

  /** The expected Secret goes, and comes back with the same files or others. */
  #lose(set: string): void {
    const { secrets, run } = this.#options;
    const name = secrets.expectedOf(set);
    const before = this.#contentOf(name);
    if (before === undefined) return;
    run.log("users", `delete ${name}`);
    run.world.store.delete("secrets", { namespace: run.namespace, name });
    const isSame = run.draw.chance(0.5);
    this.#later(run.draw.between(1_000, 60_000), () => {
      if (secrets.find(name) === undefined) secrets.write(name, isSame ? before : this.#good(before));
    });
  }

  #good({ setting }: Content): Content {
    return { version: ++this.#version, kind: "good", setting };
  }

  /** The mounted Secret is made anew as an immutable one, and later as it was. */
  #freeze(set: string): void {
    const { secrets, run } = this.#options;
    const name = mountedOf(set);
    run.log("users", `make ${name} immutable`);
    secrets.makeAnew(name, true);
    this.#later(run.draw.between(10_000, 60_000), () => secrets.makeAnew(name, false));
  }

  /** Other files come in a Secret of another name. The one before stays. */
  #rename(set: string): void {
    const { secrets, run } = this.#options;
    const now = this.#expected(set);
    if (now === undefined) return;
    const name = `${set}-files-${++this.#secretsMade}`;
    secrets.write(name, this.#good(now));
    this.#name(set, name);
    run.log("users", `${set} expects ${name}`);
  }

  #name(set: string, secret: string): void {
    const { world, namespace } = this.#options.run;
    world.annotate({ namespace, name: set }, { [configKey]: secret });
  }

  /** A Secret of before is named again, if it is still there. */
  #nameBefore(set: string): void {
    const { secrets, run } = this.#options;
    const before = secrets.names().filter((name) => name.startsWith(`${set}-files`));
    if (before.length === 0) return;
    const name = run.draw.pick(before);
    run.log("users", `${set} expects ${name} again`);
    this.#name(set, name);
  }

  /** A person edits the wrong one of the two. */
  #editMounted(set: string): void {
    const { secrets, run } = this.#options;
    const now = this.#contentOf(mountedOf(set));
    if (now === undefined || secrets.find(mountedOf(set))?.immutable === true) return;
    run.log("users", `edit ${mountedOf(set)}`);
    secrets.write(mountedOf(set), this.#good(now));
  }

  #ask(pod: string): void {
    const { run, write } = this.#options;
    if (this.#isAgreed()) write(pod, run.draw.pick(["schedule", "schedule-rolling"]));
  }

  /** Leaves nothing wrong with any Secret: all have new files that are good, and agree. */
  mend(): void {
    const { secrets, run } = this.#options;
    const [first = ""] = this.#sets;
    const mounted = this.#contentOf(mountedOf(first))?.setting ?? "one";
    const setting = this.#isAgreed() && run.draw.chance(0.5) ? `s${++this.#settings}` : mounted;
    for (const set of this.#sets) {
      if (secrets.find(mountedOf(set))?.immutable === true) secrets.makeAnew(mountedOf(set), false);
      const content = { version: ++this.#version, kind: "good", setting } as const;
      secrets.write(secrets.expectedOf(set), content);
      this.#mode(set, null);
    }
  }

  /** Leaves one thing wrong. Returns the guard that must say so. */
  hold(): string | undefined {
    const { secrets, run } = this.#options;
    const { draw, world, namespace, log } = run;
    const set = draw.pick(this.#sets);
    const name = secrets.expectedOf(set);
    const alone = ["unreadable", "missing", "refused", undefined];
    const guard = draw.pick(this.#isAgreed() ? [...alone, "disagrees", "disagrees"] : alone);
    if (guard === undefined) return undefined;
    if (guard === "unreadable") this.#change(set, { kind: "unreadable" });
    if (guard === "missing") world.store.delete("secrets", { namespace, name });
    if (guard === "disagrees") this.#change(set, { setting: `s${++this.#settings}` });
    if (guard === "refused") {
      secrets.makeAnew(mountedOf(set), true);
      this.#change(set);
    }
    log("users", `leave the files of ${set} ${guard}`);
    return `restart-config-${guard}`;
  }
}

/**
 * The Secrets of simulated processes: the files that users expect, those that the pods mount, and the kubelets that bring these.
 * What stands in a Secret decides whether a process starts with it, and which nodes join each other.
 */
import { type SecretFiles, sumOf } from "../../../functions/advance-process-restart/process-manager/kept-files.ts";
import type { StoredObject, StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import type { SeedRun } from "../seed.ts";
import { noFiles, type SimulatedManager } from "./simulated-process.ts";

export const configKey = "sluice.dev/restart-config";
export const mountedKey = "sluice.dev/restart-mounted";
export const modeKey = "sluice.dev/restart-mode";

export type Kind = "good" | "broken" | "unreadable";

/** The files of one Secret: the version and the setting make them differ. */
export interface Content {
  readonly version: number;
  readonly kind: Kind;
  /** The value that all nodes must have in common to join each other. */
  readonly setting: string;
}

interface StoredSecret extends StoredObject {
  readonly data?: Readonly<Record<string, string>>;
  readonly immutable?: boolean;
}

export interface ProcessSecretsOptions {
  readonly run: SeedRun;
  readonly sets: () => readonly StoredStatefulSet[];
  readonly pods: () => readonly StoredPod[];
  readonly managerOf: (pod: StoredPod) => SimulatedManager;
}

function textOf({ version, kind, setting }: Content): string {
  if (kind === "unreadable") return `: [${version}`;
  return `cluster.name: db-${setting}\nnode.attr.version: "${version}"\n${kind === "broken" ? "no.such.setting: 1\n" : ""}`;
}

export const mountedOf = (set: string): string => `${set}-mounted`;

export class ProcessSecrets {
  readonly #options: ProcessSecretsOptions;
  /** Contents by their sums. */
  readonly #contents = new Map<string, Content>();

  constructor(options: ProcessSecretsOptions) {
    this.#options = options;
  }

  start(): void {
    const { run, sets } = this.#options;
    const { world, namespace } = run;
    for (const { metadata } of sets()) {
      this.write(`${metadata.name}-files`, this.#first);
      this.write(mountedOf(metadata.name), this.#first);
    }
    world.store.onChange("secrets", ({ final }) => {
      if (final.metadata.namespace === namespace) this.#bring(final.metadata.name);
    });
    // A new pod starts with the files that are mounted then.
    world.store.onChange("pods", ({ previous, current }) => {
      if (previous === undefined && current !== undefined && this.#isOwn(current)) this.#options.managerOf(current);
    });
  }

  get #first(): Content {
    return { version: 1, kind: "good", setting: "one" };
  }

  annotationsOf(set: string): Record<string, string> {
    return { [configKey]: `${set}-files`, [mountedKey]: mountedOf(set) };
  }

  #isOwn({ metadata: { name, namespace } }: StoredPod): boolean {
    const { run } = this.#options;
    return namespace === run.namespace && name.startsWith(`${run.group}-`);
  }

  find(name: string): StoredSecret | undefined {
    const { world, namespace } = this.#options.run;
    return world.store.find("secrets", { namespace, name }) as StoredSecret | undefined;
  }

  /** Writes files into a Secret, which is made if it is not there. */
  write(name: string, content: Content): void {
    const { world, namespace } = this.#options.run;
    const bytes = Buffer.from(textOf(content));
    this.#contents.set(sumOf(new Map([["opensearch.yml", bytes]])), content);
    const data = { "opensearch.yml": bytes.toString("base64") };
    if (this.find(name) === undefined)
      world.store.create("secrets", namespace, { metadata: { name, labels: { [configKey]: "" } }, data } as never);
    else world.store.patch("secrets", { namespace, name }, { data });
  }

  /** Deletes a Secret and makes it again with the same files and annotations, as the message about an immutable one asks for. */
  makeAnew(name: string, immutable: boolean): void {
    const { world, namespace } = this.#options.run;
    const { data, metadata } = this.find(name) ?? {};
    if (data === undefined || metadata === undefined) return;
    const { labels, annotations, ownerReferences } = metadata;
    world.store.delete("secrets", { namespace, name });
    world.store.create("secrets", namespace, {
      metadata: { name, labels, annotations, ownerReferences },
      data,
      immutable,
    } as never);
  }

  names(): readonly string[] {
    const { world, namespace } = this.#options.run;
    return world.store.list("secrets", { namespace }).items.map(({ metadata }) => metadata.name);
  }

  /** The name of the Secret that a StatefulSet expects. */
  expectedOf(set: string): string {
    const { world, namespace } = this.#options.run;
    return world.store.find("statefulsets", { namespace, name: set })?.metadata.annotations?.[configKey] ?? "";
  }

  /** The sum of the files in a Secret, as a server reports it of a mounted one. */
  sumIn(name: string): string {
    const data = this.find(name)?.data ?? {};
    const files: SecretFiles = new Map(Object.entries(data).map(([key, text]) => [key, Buffer.from(text, "base64")]));
    return files.size === 0 ? noFiles : sumOf(files);
  }

  contentOf(sum: string): Content | undefined {
    return this.#contents.get(sum);
  }

  settingOf(sum: string | undefined): string | undefined {
    return this.#contents.get(sum ?? "")?.setting;
  }

  isWhole(sum: string): boolean {
    return this.contentOf(sum)?.kind === "good";
  }

  /** Each kubelet brings in its own time what the Secret has then. */
  #bring(secret: string): void {
    const { run, pods, managerOf } = this.#options;
    const { world, draw, plan, log } = run;
    for (const { metadata } of pods()) {
      const { name, uid } = metadata;
      const set = setNameOf(name);
      if (mountedOf(set) !== secret) continue;
      world.timeline.after(draw.between(500, plan.restarts?.bringsWithinMs ?? 0), () => {
        const now = pods().find((one) => one.metadata.uid === uid);
        const sum = this.sumIn(secret);
        if (now === undefined || sum === noFiles || managerOf(now).mounted === sum) return;
        log("kubelet", `brings ${this.describe(sum)} to ${name}`);
        managerOf(now).mounted = sum;
      });
    }
  }

  describe(sum: string): string {
    const content = this.contentOf(sum);
    return content === undefined ? `files ${sum}` : `files ${content.version} (${content.kind}, ${content.setting})`;
  }
}

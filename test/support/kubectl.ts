/** Overlays as users have them: built by kubectl, in a namespace of the user's choice, and applied with strict validation. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { dump, load, loadAll } from "js-yaml";
import { programEnvironment } from "../controlplane/commands.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";

const execute = promisify(execFile);
const knative = join(import.meta.dirname, "../../knative");

export interface Built {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

/** True for a CRD, which must exist before objects of its kind. */
export function isDefinition({ kind }: Built): boolean {
  return kind === "CustomResourceDefinition";
}

/** The objects as several documents of YAML. */
export function textOf(objects: readonly Built[]): string {
  return objects.map((object) => dump(object, { noRefs: true })).join("---\n");
}

export class Kubectl {
  readonly #controlPlane: Pick<ControlPlane, "kubectl" | "kubeconfig">;
  readonly #folder: string;

  private constructor(controlPlane: Pick<ControlPlane, "kubectl" | "kubeconfig">, folder: string) {
    this.#controlPlane = controlPlane;
    this.#folder = folder;
  }

  static async open(controlPlane: Pick<ControlPlane, "kubectl" | "kubeconfig">): Promise<Kubectl> {
    return new Kubectl(controlPlane, await mkdtemp(join(tmpdir(), "sluice-overlays-")));
  }

  /** Resolves to the output. Rejects with `stderr` when kubectl fails. */
  async run(...args: string[]): Promise<string> {
    const { kubectl, kubeconfig } = this.#controlPlane;
    const { stdout } = await execute(kubectl, ["--kubeconfig", kubeconfig, ...args], {
      env: programEnvironment(),
    });
    return stdout;
  }

  /** The objects that kustomize builds from a folder below `knative`. */
  async build(folder: string): Promise<Built[]> {
    return loadAll(await this.run("kustomize", join(knative, folder))) as unknown as Built[];
  }

  /** The patches of each kustomization that has nothing else, from a README below `knative`, in order. */
  async patchesIn(readme: string): Promise<(readonly object[])[]> {
    const text = await readFile(join(knative, readme), "utf8");
    const blocks = [...text.matchAll(/```yaml\n(patches:\n[^`]*)```/g)].map(([, block = ""]) => block);
    return blocks.map((block) => (load(block) as { patches: object[] }).patches);
  }

  /** The overlay as a user's own kustomization builds it: in another namespace, with these patches of kustomize. */
  async buildIn(
    namespace: string,
    overlay: string,
    patches: readonly object[] = [],
    components: readonly string[] = [],
    beside: readonly string[] = [],
  ): Promise<Built[]> {
    const from = (path: string) => relative(this.#folder, join(knative, path));
    const resources = [`overlays/${overlay}`, ...beside].map(from);
    const parts = { components: components.map(from), transformers: [from("namespace")] };
    return this.buildFile(dump({ namespace, resources, patches, ...parts }));
  }

  /** The objects that a kustomization builds from files that {@link file} has written. */
  async buildFile(kustomization: string): Promise<Built[]> {
    await this.file("kustomization.yaml", kustomization);
    return loadAll(await this.run("kustomize", this.#folder)) as unknown as Built[];
  }

  /** Applies server-side with strict field validation. Resolves to kubectl's line for each object. */
  async apply(objects: readonly Built[], ...options: string[]): Promise<string[]> {
    const path = await this.file("objects.yaml", textOf(objects));
    const output = await this.run("apply", "--server-side", "--validate=strict", ...options, "-f", path);
    return output.trim().split("\n");
  }

  /** Resolves when the API server serves every existing CRD. */
  async waitForDefinitions(): Promise<void> {
    await this.run("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
  }

  /** Has the API server check a file or folder below `knative` without storing it. Resolves to its line for each object. */
  async rehearse(namespace: string, path: string): Promise<string[]> {
    const options = ["--namespace", namespace, "--server-side", "--dry-run=server", "--validate=strict"];
    const output = await this.run("apply", ...options, "-f", join(knative, path));
    return output.trim().split("\n");
  }

  /** The commands of a chapter of a README below `knative`, and of what is below its heading, line by line, without remarks. */
  async commandsOf(readme: string, chapter: string): Promise<string[]> {
    const text = await readFile(join(knative, readme), "utf8");
    const [part = "", level = ""] = new RegExp(`^(##+) ${chapter}\n[^]*`, "m").exec(text) ?? [];
    const [own = ""] = part.split(new RegExp(`\n#{2,${level.length}} `));
    const blocks = [...own.matchAll(/```sh\n([^`]*)```/g)].flatMap(([, block = ""]) => block.trim().split("\n"));
    return blocks.map((line) => line.replace(/ +#.*$/, ""));
  }

  /** Runs a line as a user types it. Resolves to the output. Rejects with `stderr` when it fails. */
  async shell(line: string): Promise<string> {
    const { kubectl, kubeconfig } = this.#controlPlane;
    const env = { PATH: `${dirname(kubectl)}:${process.env.PATH}`, KUBECONFIG: kubeconfig, HOME: this.#folder };
    const { stdout } = await execute("sh", ["-c", line], { env });
    return stdout;
  }

  /** The objects that exist. */
  async existing(objects: readonly Built[]): Promise<Built[]> {
    const path = await this.file("objects.yaml", textOf(objects));
    const text = await this.run("get", "--ignore-not-found", "-o", "name", "--show-kind", "-f", path);
    const left = text.trim().split("\n");
    const isLeft = ({ apiVersion, kind, metadata: { name } }: Built) => {
      const [, group = ""] = /^(.*)\/[^/]*$/.exec(apiVersion) ?? [];
      return left.includes(`${kind.toLowerCase()}${group === "" ? "" : `.${group}`}/${name}`);
    };
    return objects.filter(isLeft);
  }

  /** Applies a kustomization of a README as a user types it: this tree stands for the folder `sluice` there. */
  async applyKustomization(text: string, ...options: string[]): Promise<string> {
    await this.file("kustomization.yaml", this.#here(text));
    return this.run("apply", "-k", this.#folder, ...options);
  }

  /** The objects that a kustomization of a README builds, likewise. */
  async buildKustomization(text: string): Promise<Built[]> {
    return this.buildFile(this.#here(text));
  }

  #here(text: string): string {
    return text.replaceAll("sluice/knative", relative(this.#folder, knative));
  }

  /** Writes a file for a command to read. Resolves to its path. */
  async file(name: string, text: string): Promise<string> {
    await writeFile(join(this.#folder, name), text);
    return join(this.#folder, name);
  }

  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}

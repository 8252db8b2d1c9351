/** The kubectl plugin as it ships: one file in a folder of its own, which the real kubectl finds on PATH. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";

const builder = join(import.meta.dirname, "../../knative/image/plugin.ts");

export interface PluginOutput {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export function runProgram(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<PluginOutput> {
  return new Promise((resolve) => {
    execFile(program, args, { env }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

export class Plugin {
  readonly folder: string;
  readonly #kubectl: string;
  readonly #kubeconfig: string;

  private constructor(folder: string, { kubectl, kubeconfig }: { kubectl: string; kubeconfig: string }) {
    this.folder = folder;
    this.#kubectl = kubectl;
    this.#kubeconfig = kubeconfig;
  }

  /** @param flags of `npm run build:plugin` */
  static async build(
    access: { readonly kubectl: string; readonly kubeconfig: string },
    ...flags: readonly string[]
  ): Promise<Plugin> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-plugin-"));
    const file = join(folder, "bin/kubectl-sluice");
    const built = await runProgram(process.execPath, [builder, file, ...flags], process.env);
    assert.equal(built.code, 0, built.stderr);
    return new Plugin(folder, access);
  }

  /**
   * PATH with the plugin's folder and this Node first, because the plugin's first line looks for `node`, and an older one may
   * be installed.
   */
  get path(): string {
    return [join(this.folder, "bin"), dirname(process.execPath), process.env.PATH].join(delimiter);
  }

  /** `kubectl sluice …` */
  sluice(line: string, kubeconfig = this.#kubeconfig): Promise<PluginOutput> {
    const env = { ...process.env, PATH: this.path, KUBECONFIG: kubeconfig, HOME: this.folder };
    return runProgram(this.#kubectl, ["sluice", ...line.split(" ")], env);
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

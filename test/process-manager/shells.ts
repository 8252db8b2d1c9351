/** The shells of stock images, each with the few programs that the runner needs, with `setsid` and without. */
import { existsSync } from "node:fs";
import { mkdtemp, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Packages } from "../support/packages.ts";

export interface RunnerShell {
  readonly name: string;
  readonly command: readonly string[];
  /** For PATH: it has nothing else. */
  readonly system: string;
  readonly hasSetsid: boolean;
}

const needed = ["cat", "cp", "date", "grep", "ln", "ls", "mkdir", "mv", "rm", "sh", "sleep", "sort", "wc"];

function systemProgram(name: string): string {
  const found = ["/usr/bin", "/bin"].map((folder) => join(folder, name)).find((path) => existsSync(path));
  if (found === undefined) throw new Error(`this machine has no ${name}`);
  return found;
}

/** @param more programs that an image may lack, such as `setsid` */
async function makePath(more: readonly string[], programOf: (name: string) => string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-runner-path-"));
  for (const name of [...needed, ...more]) await symlink(programOf(name), join(folder, name));
  return folder;
}

/** The shells of Debian and Ubuntu, of images on other distributions, and of Alpine. */
export async function runnerShells({ dash, busybox }: Packages): Promise<readonly RunnerShell[]> {
  const kinds = [
    { name: "dash", command: [dash], programOf: systemProgram },
    { name: "bash", command: [systemProgram("bash")], programOf: systemProgram },
    { name: "busybox", command: [busybox, "sh"], programOf: () => busybox },
  ];
  const made = kinds.flatMap(({ name, command, programOf }) =>
    [true, false].map(async (hasSetsid) => {
      const system = await makePath(["sha256sum", ...(hasSetsid ? ["setsid"] : [])], programOf);
      return { name: `${name} ${hasSetsid ? "with" : "without"} setsid`, command, system, hasSetsid };
    }),
  );
  return Promise.all(made);
}

/** A shell of an image that cannot compute a sum. */
export async function shellWithoutSums({ dash }: Packages): Promise<RunnerShell> {
  return { name: "dash", command: [dash], system: await makePath([], systemProgram), hasSetsid: false };
}

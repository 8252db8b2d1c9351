/** Builds Sluice as in its image: runs the steps of a checkout's Dockerfile that make the bundles and their compiled code. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { readDockerfile } from "../support/dockerfile.ts";

export interface Shipped {
  /** Environment variables that the image sets. */
  readonly environment: Readonly<Record<string, string>>;
  /** The image's flags for Node. */
  readonly flags: readonly string[];
  /** Folder of the bundles. */
  readonly server: string;
  /** The program to start. */
  readonly start: string;
  remove(): Promise<void>;
}

/** Folder in which the build stage puts its results, and the image has the server. */
const placeOfImage = "/sluice";

/**
 * Builds the server of a checkout by its own Dockerfile, whatever its layout. Rejects with the output of a step that failed.
 *
 * @param more flags for Node besides those of the image
 */
export async function buildShipped(directory: string, more: readonly string[] = []): Promise<Shipped> {
  const steps = readDockerfile(await readFile(join(directory, "Dockerfile"), "utf8")).flatMap((stage) => stage.steps);
  const commandOf = (kind: "run" | "entrypoint") =>
    steps
      .flatMap((step) => (step.kind === kind && step.command[0] === "/nodejs/bin/node" ? [step.command] : []))
      .at(-1);
  const [compiling, starting] = [commandOf("run"), commandOf("entrypoint")];
  if (compiling === undefined || starting === undefined) throw new Error(`${directory}: its image has no such server`);
  const flags = [...starting.filter((word) => word.startsWith("--")), ...more];
  const environment = Object.assign({}, ...steps.map((step) => (step.kind === "environment" ? step.variables : {})));
  const folder = await mkdtemp(join(tmpdir(), "sluice-shipped-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  const server = join(folder, "server");
  const execute = promisify(execFile);
  try {
    await execute(process.execPath, [join(directory, "knative/image/bundle.ts"), folder], { cwd: directory });
    const words = compiling.slice(1).map((word) => word.replace(placeOfImage, folder));
    await execute(process.execPath, [...more, ...words], { cwd: directory });
    return { environment, flags, server, start: (starting.at(-1) ?? "").replace(placeOfImage, server), remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/**
 * Copies the product's current sources into a folder of their own: a bench starts them for an hour, and a file that is edited
 * meanwhile may not even parse. The packages are those of the checkout.
 */
export async function copySources(directory: string): Promise<{ readonly directory: string; remove(): Promise<void> }> {
  const copy = await mkdtemp(join(tmpdir(), "sluice-sources-"));
  for (const name of ["package.json", "functions", "triggers"]) {
    await cp(join(directory, name), join(copy, name), { recursive: true });
  }
  await symlink(resolve(directory, "node_modules"), join(copy, "node_modules"), "dir");
  return { directory: copy, remove: () => rm(copy, { recursive: true, force: true }) };
}

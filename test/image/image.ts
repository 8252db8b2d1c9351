/**
 * Builds the image without a container engine. Each stage of the Dockerfile is a folder in which its steps run, and
 * `.dockerignore` decides what is copied from the checkout. This machine plays the base images, with its npm and the Node that
 * runs the tests.
 */
import { execFile } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import type { Launched } from "../controlplane/processes.ts";
import { readDockerfile, type Stage, type Step } from "../support/dockerfile.ts";

const execute = promisify(execFile);
const project = join(import.meta.dirname, "../..");
/** Path of Node in the base image. */
const nodeOfImage = "/nodejs/bin/node";
/** Only root may become another user; every other user is unprivileged already. */
const isRoot = process.getuid?.() === 0;

/** What one target of the Dockerfile is. */
export interface Target {
  /** The folder that would be `/` in a container. No process may write in it. */
  readonly root: string;
  /** The command line of the entry point, as the image's user, with paths of this machine. */
  readonly command: readonly [string, ...string[]];
  /** Environment variables that the image sets. */
  readonly environment: Readonly<Record<string, string>>;
}

export interface Image extends Target {
  /** The image of the agents. */
  readonly agent: Target;
  /** The image of the server beside a database process. */
  readonly processManager: Target;
  /** The folders of the earlier stages, by name. */
  readonly stages: ReadonlyMap<string, string>;
  remove(): Promise<void>;
}

interface StageState {
  readonly root: string;
  workdir: string;
  user: string;
  environment: Record<string, string>;
}

/** Variables of this test run, of `npm test`, and of the user who runs it. Settings that reach the registry stay. */
const foreign = /^(npm_|KUBE|CI$|NODE_(OPTIONS|ENV|PATH|TEST_CONTEXT|V8_COVERAGE|COMPILE_CACHE.*|DEBUG.*)$)/;

/** The environment of a build: it has nothing of this checkout, and npm uses its existing downloads. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !foreign.test(name));
  const path = (process.env.PATH ?? "").split(delimiter).filter((folder) => !folder.startsWith(project));
  const searched = [dirname(process.execPath), ...path].join(delimiter);
  return { ...Object.fromEntries(own), PATH: searched, npm_config_prefer_offline: "true" };
}

/** Runs the steps of the Dockerfile, and makes the result read-only. Rejects with the output of a step that failed. */
export async function buildImage(): Promise<Image> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-image-"));
  await chmod(folder, 0o755);
  const stages = new Map<string, string>();
  const remove = async () => {
    await execute("chmod", ["-R", "u+w", folder]);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const targets = new Map<string, Target>();
    for (const stage of readDockerfile(await readFile(join(project, "Dockerfile"), "utf8"))) {
      const root = join(folder, stage.name || "image");
      stages.set(stage.name, root);
      const built = await buildStage(stage, root, stages);
      if (built === undefined) continue;
      targets.set(stage.name, { root, ...built });
      await execute("chmod", ["-R", "a-w", root]);
    }
    const [image, agent, processManager] = ["", "agent", "process-manager"].map((name) => targets.get(name));
    if (image === undefined || agent === undefined || processManager === undefined) {
      throw new Error("an image has no ENTRYPOINT");
    }
    return { ...image, agent, processManager, stages, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function buildStage(
  stage: Stage,
  root: string,
  stages: ReadonlyMap<string, string>,
): Promise<Omit<Target, "root"> | undefined> {
  await mkdir(root);
  const place: StageState = { root, workdir: "/", user: "0:0", environment: {} };
  let command: Image["command"] | undefined;
  for (const step of stage.steps) {
    if (step.kind === "workdir") {
      place.workdir = resolve(place.workdir, step.path);
      await mkdir(inside(place, "."), { recursive: true });
    } else if (step.kind === "user") place.user = step.user;
    else if (step.kind === "environment") Object.assign(place.environment, step.variables);
    else if (step.kind === "copy") await copy(step, place, stages);
    else if (step.kind === "run") await run(step.command, place);
    else command = commandOf(step.command, place);
  }
  return command && { command, environment: place.environment };
}

function inside({ root, workdir }: StageState, path: string): string {
  return join(root, resolve(workdir, path));
}

/** The command as the stage's user, with its absolute paths inside the stage's folder. The shell is this machine's. */
function commandOf(command: readonly string[], place: StageState): [string, ...string[]] {
  const words = command.map((word, index) => {
    if (word === nodeOfImage) return process.execPath;
    return word.startsWith("/") && index > 0 ? inside(place, word) : word;
  });
  const [uid = "0", gid = uid] = place.user.split(":");
  const identity = isRoot && uid !== "0" ? ["setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--"] : [];
  return [...identity, ...words] as [string, ...string[]];
}

async function run(command: readonly string[], place: StageState): Promise<void> {
  const [file, ...args] = commandOf(command, place);
  try {
    await execute(file, args, { cwd: inside(place, "."), env: { ...cleanEnvironment(), ...place.environment } });
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command.join(" ")} failed:\n${stdout ?? ""}${stderr ?? ""}`, { cause: error });
  }
}

async function copy(
  { from, owner, paths }: Step & { kind: "copy" },
  place: StageState,
  stages: ReadonlyMap<string, string>,
): Promise<void> {
  const sources = paths.slice(0, -1);
  const target = paths.at(-1) ?? "";
  const base = from === undefined ? project : stages.get(from);
  if (base === undefined) throw new Error(`COPY --from=${from}: there is no such stage before it`);
  const isIgnored = from === undefined ? await readDockerignore() : () => false;
  for (const source of sources) {
    const path = join(base, source);
    if (isIgnored(source)) throw new Error(`COPY ${source}: .dockerignore leaves it out`);
    const isFile = (await stat(path)).isFile();
    // The contents of a folder are copied, and a file is copied into the target if that is a folder.
    const to = isFile && target.endsWith("/") ? join(inside(place, target), basename(path)) : inside(place, target);
    await cp(path, to, { recursive: true, filter: (one) => !isIgnored(relative(base, one)) });
    if (isRoot) await execute("chown", ["-R", owner, to]);
  }
}

/** The files below a folder, by their paths in it. */
export async function filesOf(folder: string): Promise<Map<string, Buffer>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(
    await Promise.all(paths.map(async (path) => [path.slice(folder.length), await readFile(path)] as const)),
  );
}

/** Knows only the rules that our file uses: a star, `!NAME` and an ending in any folder. */
async function readDockerignore(): Promise<(path: string) => boolean> {
  const lines = (await readFile(join(project, ".dockerignore"), "utf8")).split("\n");
  const rules = lines.filter((line) => line !== "" && !line.startsWith("#"));
  const wanted = rules.filter((rule) => rule.startsWith("!")).map((rule) => rule.slice(1));
  const endings = rules.filter((rule) => rule.startsWith("**/*")).map((rule) => rule.slice("**/*".length));
  if (rules.length !== 1 + wanted.length + endings.length || rules[0] !== "*")
    throw new Error("a rule is not known here");
  const isWanted = (path: string) => wanted.some((name) => path === name || path.startsWith(`${name}/`));
  return (path) => !isWanted(path) || endings.some((ending) => path.endsWith(ending));
}

/** A line of the log of a process of the image. */
export interface LogLine {
  readonly msg: string;
  readonly port?: number;
  readonly serving: string;
}

/** What a process has logged, without lines that are not of its log. */
export function logOf({ printed }: Pick<Launched, "printed">): LogLine[] {
  const lines = printed().stdout.split("\n");
  return lines.flatMap((line) => (line.endsWith("}") ? [JSON.parse(line)] : []));
}

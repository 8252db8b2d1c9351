/**
 * RabbitMQ, and the shells and tools for tests of scripts: packages of Debian or Ubuntu, unpacked into the cache. Nothing is
 * installed, and no rights of root are needed.
 */
import { globSync } from "node:fs";
import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { basename, delimiter, join } from "node:path";
import { ensureBuilt, holds, type Log, type Recipe, recipeFolder } from "../controlplane/build.ts";
import { librariesIn, unpackPackages } from "./debian.ts";

const WANTED = ["rabbitmq-server", "busybox", "dash", "shellcheck"];
/** Taken from the archive even if this machine has them, because installed parts of Erlang would not find the unpacked ones. */
const WHOLE = /^(erlang-.*|rabbitmq-server|busybox|dash|shellcheck)$/;
/** Their place is `bin` or `usr/bin`, depending on the age of the distribution. */
const PROGRAMS = ["busybox", "dash", "shellcheck"];
const SERVER = "root/usr/lib/rabbitmq/bin";
const ERLANG = "root/usr/lib/erlang";
const REMOVED = "removed-plugins";
/**
 * Plugins that no test enables. A node searches the folders of all existing plugins for each of a thousand modules, so without
 * these folders a start takes less processor time. Libraries stay, because other plugins may need them.
 */
const UNUSED = /^rabbitmq_(?!management-|management_agent-|web_dispatch-|prelaunch-)/;

const RECIPE: Recipe = {
  name: "rabbitmq",
  builds: [],
  files: [`${SERVER}/rabbitmq-server`, `${ERLANG}/bin/erl`, REMOVED, ...PROGRAMS.map((program) => `bin/${program}`)],
  expectation: "this happens once: about 40 MB of packages are loaded and unpacked, in about 15 s",
  finish: unpack,
};

/** Absolute paths. */
export interface Packages {
  /** For PATH: the folders of the server, its tools and Erlang, and those of every system. */
  readonly path: string;
  /** For LD_LIBRARY_PATH: libraries that this machine lacks. */
  readonly libraries: string;
  readonly busybox: string;
  readonly dash: string;
  readonly shellcheck: string;
}

/** The packages; undefined if they would have to be downloaded first. */
export async function findPackages(): Promise<Packages | undefined> {
  const folder = await recipeFolder(RECIPE);
  return (await holds(folder, RECIPE.files)) ? packagesIn(folder) : undefined;
}

/** The same, but downloads missing packages. Throws without apt-get, or if its archive cannot be reached. */
export async function ensurePackages(log: Log): Promise<Packages> {
  return packagesIn(await ensureBuilt(RECIPE, log));
}

/** The packages for the tests of a file; undefined if they are missing, which is reported. In CI it throws instead. */
export async function packagesForTests(): Promise<Packages | undefined> {
  const found = await findPackages();
  if (found !== undefined) return found;
  const how = "run `npm test -- control` on a Debian or an Ubuntu that reaches its archive (once, about 15 s)";
  if (process.env.CI === "true") throw new Error(`there is no RabbitMQ to test with: ${how}`);
  console.error(`\nSKIPPED: everything that needs a real RabbitMQ, and the shells of scripts. To get them, ${how}.\n`);
  return undefined;
}

function packagesIn(folder: string): Packages {
  const program = (name: string) => join(folder, "bin", name);
  return {
    path: [join(folder, SERVER), join(folder, ERLANG, "bin"), "/usr/bin", "/bin"].join(delimiter),
    libraries: librariesIn(folder),
    busybox: program("busybox"),
    dash: program("dash"),
    shellcheck: program("shellcheck"),
  };
}

async function unpack(folder: string, log: Log): Promise<void> {
  const root = join(folder, "root");
  await mkdir(join(folder, "bin"), { recursive: true });
  await unpackPackages(folder, { wanted: WANTED, whole: WHOLE }, log);
  await removePlugins(root, folder);
  // The folder is built here, and renamed before it is used.
  await moveErlang(join(root, "usr/lib/erlang"), join(await recipeFolder(RECIPE), ERLANG));
  for (const program of PROGRAMS) {
    const [found] = globSync(`root/{usr/,}bin/${program}`, { cwd: folder });
    if (found !== undefined) await symlink(join("..", found), join(folder, "bin", program));
  }
}

async function removePlugins(root: string, folder: string): Promise<void> {
  const plugins = globSync("usr/lib/rabbitmq/lib/*/plugins/*", { cwd: root }).filter((path) =>
    UNUSED.test(basename(path)),
  );
  for (const plugin of plugins) await rm(join(root, plugin), { recursive: true });
  await writeFile(join(folder, REMOVED), `${plugins.map((path) => basename(path)).join("\n")}\n`);
}

/** Erlang's scripts contain the path where the package installs it. */
async function moveErlang(erlang: string, home: string): Promise<void> {
  for (const script of globSync(["bin/{erl,start}", "erts-*/bin/{erl,start}"], { cwd: erlang })) {
    const path = join(erlang, script);
    const text = await readFile(path, "utf8");
    await writeFile(path, text.replaceAll(/\bROOTDIR=\/usr\/lib\/erlang\b/g, `ROOTDIR=${home}`));
  }
}

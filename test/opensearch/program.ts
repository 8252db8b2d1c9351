/** A real OpenSearch: jars of Maven Central in the cache, laid out as in its distribution. It needs a JDK and Maven. */
import { execFile, spawnSync } from "node:child_process";
import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { ensureBuilt, holds, type Log, type Recipe, recipeFolder } from "../controlplane/build.ts";

const run = promisify(execFile);

const pom = join(import.meta.dirname, "pom.xml");
/** Maven Central has the module's jars, but neither its description nor its rights. */
const moduleFiles = ["plugin-descriptor.properties", "plugin-security.policy"];
const moduleSource = (name: string) => join(import.meta.dirname, "netty4", name);
const module = "modules/transport-netty4";
/** The plugin that switches on TLS and passwords, for nodes that are to have it. */
export const securityPlugin = "optional/opensearch-security";

const RECIPE: Recipe = {
  name: "opensearch",
  builds: [],
  sources: [pom, ...moduleFiles.map(moduleSource)],
  files: [
    ...["lib/opensearch-2.19.1.jar", "bin", "plugins", `${securityPlugin}/plugin-descriptor.properties`],
    ...moduleFiles.map((name) => `${module}/${name}`),
  ],
  expectation: "this happens once: Maven loads about 90 MB of jars, in about 30 s",
  finish: layOut,
};

/** The home folder of OpenSearch; undefined if it would have to be loaded first, or if there is no Java. */
async function findOpenSearch(): Promise<string | undefined> {
  const folder = await recipeFolder(RECIPE);
  const isComplete = await holds(folder, RECIPE.files);
  return isComplete && spawnSync("java", ["-version"]).status === 0 ? folder : undefined;
}

/** The same, but loads what is missing. Throws without Maven, or if Maven Central cannot be reached. */
export function ensureOpenSearch(log: Log): Promise<string> {
  return ensureBuilt(RECIPE, log);
}

/** The home folder for the tests of a file; undefined if it is missing, which is reported. In CI it throws instead. */
export async function openSearchForTests(): Promise<string | undefined> {
  const found = await findOpenSearch();
  if (found !== undefined) return found;
  const how = "run `npm test -- control` with a JDK 17 and Maven that reaches Maven Central (once, about 20 s)";
  if (process.env.CI === "true") throw new Error(`there is no OpenSearch to test with: ${how}`);
  console.error(`\nSKIPPED: everything that needs a real OpenSearch. To get it, ${how}.\n`);
  return undefined;
}

async function layOut(folder: string, log: Log): Promise<void> {
  log("mvn package (test/opensearch/pom.xml)");
  const args = ["--batch-mode", "--quiet", "--file", pom, "package", `-Dhome=${folder}`];
  await run("mvn", args, { maxBuffer: 64 * 1024 * 1024 }).catch(
    (error: NodeJS.ErrnoException & { stdout?: string }) => {
      const why = error.code === "ENOENT" ? "no mvn command: install Maven and a JDK 17" : error.stdout;
      throw new Error(`OpenSearch cannot be loaded: ${why}`, { cause: error });
    },
  );
  for (const name of moduleFiles) await copyFile(moduleSource(name), join(folder, module, name));
  // A node does not start without these.
  for (const name of ["bin", "plugins"]) await mkdir(join(folder, name));
}

/**
 * A real OpenSearch, and a real Elasticsearch: jars of Maven Central in the cache, laid out as in a distribution. They need a JDK
 * and Maven.
 */
import { execFile, spawnSync } from "node:child_process";
import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { ensureBuilt, holds, type Log, type Recipe, recipeFolder } from "../controlplane/build.ts";

const run = promisify(execFile);

/** What nodes run. */
export type Product = "opensearch" | "elasticsearch";

const pom = join(import.meta.dirname, "pom.xml");
/** Maven Central has the module's jars, but neither its description nor its rights. */
const moduleFiles = ["plugin-descriptor.properties", "plugin-security.policy"];
const moduleSource = (name: string) => join(import.meta.dirname, "netty4", name);
const module = "modules/transport-netty4";
/** The plugin that switches on TLS and passwords, for nodes that are to have it. */
export const securityPlugin = "optional/opensearch-security";

/** A node does not start without these. */
const emptyFolders = ["bin", "plugins"];

const elasticsearchPom = join(import.meta.dirname, "elasticsearch/pom.xml");
const mainClass = join(import.meta.dirname, "elasticsearch/ElasticsearchNode.java");

const recipes: Readonly<Record<Product, Recipe>> = {
  opensearch: {
    name: "opensearch",
    builds: [],
    sources: [pom, ...moduleFiles.map(moduleSource)],
    files: [
      ...["lib/opensearch-2.19.1.jar", ...emptyFolders, `${securityPlugin}/plugin-descriptor.properties`],
      ...moduleFiles.map((name) => `${module}/${name}`),
    ],
    expectation: "this happens once: Maven loads about 90 MB of jars, in about 30 s",
    async finish(folder, log) {
      await loadJars(pom, folder, log);
      for (const name of moduleFiles) await copyFile(moduleSource(name), join(folder, module, name));
    },
  },
  elasticsearch: {
    name: "elasticsearch",
    builds: [],
    sources: [elasticsearchPom, mainClass],
    files: ["lib/elasticsearch-7.10.2.jar", ...emptyFolders, "modules", "classes/ElasticsearchNode.class"],
    expectation: "this happens once: Maven loads about 30 MB of jars, in about 10 s",
    async finish(folder, log) {
      await loadJars(elasticsearchPom, folder, log);
      await mkdir(join(folder, "modules"));
      await run("javac", ["-cp", `${folder}/lib/*`, "-d", join(folder, "classes"), mainClass]);
    },
  },
};

/** Loads what is missing of both. Throws without Maven, or if Maven Central cannot be reached. */
export async function ensureDatabases(log: Log): Promise<void> {
  for (const recipe of Object.values(recipes)) await ensureBuilt(recipe, log);
}

/** The home of OpenSearch for the tests of a file; undefined if it is missing, which is reported. In CI it throws instead. */
export function openSearchForTests(): Promise<string | undefined> {
  return homeForTests("opensearch");
}

/** The same of any product. */
export async function homeForTests(product: Product): Promise<string | undefined> {
  const home = await recipeFolder(recipes[product]);
  const isComplete = await holds(home, recipes[product].files);
  if (isComplete && spawnSync("java", ["-version"]).status === 0) return home;
  const how = "run `npm test -- control` with a JDK 17 and Maven that reaches Maven Central (once, about 30 s)";
  if (process.env.CI === "true") throw new Error(`there is no ${product} to test with: ${how}`);
  console.error(`\nSKIPPED: everything that needs a real ${product}. To get it, ${how}.\n`);
  return undefined;
}

async function loadJars(file: string, folder: string, log: Log): Promise<void> {
  log(`mvn package (${file})`);
  const args = ["--batch-mode", "--quiet", "--file", file, "package", `-Dhome=${folder}`];
  await run("mvn", args, { maxBuffer: 64 * 1024 * 1024 }).catch(
    (error: NodeJS.ErrnoException & { stdout?: string }) => {
      const why = error.code === "ENOENT" ? "no mvn command: install Maven and a JDK 17" : error.stdout;
      throw new Error(`the jars of ${file} cannot be loaded: ${why}`, { cause: error });
    },
  );
  for (const name of emptyFolders) await mkdir(join(folder, name));
}

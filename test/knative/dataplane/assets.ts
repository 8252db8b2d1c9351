import { copyFile } from "node:fs/promises";
import { basename, join } from "node:path";
import {
  ensureBuilt,
  type GoBuild,
  holds,
  type Log,
  type Recipe,
  recipeFolder,
  runGo,
} from "../../controlplane/build.ts";

/** Where Knative's programs are, as they were built. */
export interface DataPlane {
  /** A folder with one file for each program, called as its command is, and with what they look for in a cluster. */
  readonly folder: string;
}

const LDFLAGS = "-s -w";

/** The folders of the pinned modules, as seen from where control planes are built. */
const EVENTING = "../knative/dataplane/eventing";
const SERVING = "../knative/dataplane/serving";
const NETNS = "../knative/dataplane/netns";

const EVENTING_COMMANDS = [
  "apiserver_receive_adapter",
  "broker/filter",
  "broker/ingress",
  "in_memory/channel_dispatcher",
  "mtping",
];

/** Two modules: in one, eventing would be built with the libraries of serving, which it was not released with. */
const BUILDS: readonly GoBuild[] = [
  { module: EVENTING, packages: EVENTING_COMMANDS.map((name) => `knative.dev/eventing/cmd/${name}`), ldflags: LDFLAGS },
  { module: SERVING, packages: ["knative.dev/serving/cmd/queue"], ldflags: LDFLAGS },
];

/** Networks of their own are Linux's. */
const CONFINEMENT: readonly GoBuild[] =
  process.platform === "linux" ? [{ module: NETNS, packages: ["."], ldflags: LDFLAGS }] : [];

/** What the programs list and watch, and what they are set by: files of eventing's `config`. */
const OBJECTS = [
  ...["apiserversource", "broker", "eventpolicy", "eventtype", "pingsource", "subscription", "trigger"].map(
    (name) => `core/resources/${name}.yaml`,
  ),
  "channels/in-memory-channel/resources/in-memory-channel.yaml",
  ...["features", "leader-election", "logging", "observability"].map((name) => `core/configmaps/${name}.yaml`),
];

/** What an object of eventing is called beside the programs. */
function nameOf(object: string): string {
  return `eventing-${basename(object)}`;
}

const RECIPE: Recipe = {
  name: "knative",
  builds: [...BUILDS, ...CONFINEMENT],
  files: [
    ...[...BUILDS, ...CONFINEMENT].flatMap(({ module, packages }) =>
      packages.map((path) => basename(join(module, path))),
    ),
    ...OBJECTS.map(nameOf),
  ],
  expectation: "this happens once and takes about 5 minutes on 2 cores",
  finish: async (folder) => {
    const sources = (await runGo(["list", "-m", "-f", "{{.Dir}}", "knative.dev/eventing"], EVENTING)).trim();
    await Promise.all(OBJECTS.map((object) => copyFile(join(sources, "config", object), join(folder, nameOf(object)))));
  },
};

/** The programs, or undefined when something would have to be built first. */
export async function findBuilt(): Promise<DataPlane | undefined> {
  const folder = await recipeFolder(RECIPE);
  return (await holds(folder, RECIPE.files)) ? { folder } : undefined;
}

/** The programs, built first when they are missing: minutes, once. Throws when a build fails or there is no go command. */
export async function findDataPlane(log: Log): Promise<DataPlane> {
  return { folder: await ensureBuilt(RECIPE, log) };
}

/** The paths of Knative Eventing's CRDs and ConfigMaps, as they are released with the programs. */
export function objectsOf({ folder }: DataPlane): readonly string[] {
  return OBJECTS.map((object) => join(folder, nameOf(object)));
}

/** The path of one program. */
export function pathOf({ folder }: DataPlane, program: string): string {
  return join(folder, program);
}

/** Whether the suites that need Knative's programs are skipped. In CI they fail instead. */
export async function skipWithoutDataPlane(): Promise<boolean> {
  if ((await findBuilt()) !== undefined) return false;
  const how = "run `npm test -- control` with Go at hand (once, about 5 minutes)";
  if (process.env.CI === "true") throw new Error(`Knative's programs were not built: ${how}`);
  console.error(`\nSKIPPED: everything that needs Knative's programs. To get them, ${how}.\n`);
  return true;
}

/** The contents of a release: the chart, an overlay as one file, the plugin. */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { dump } from "js-yaml";
import { bundlePlugin } from "../image/bundle-plugin.ts";
import { root } from "../image/bundling.ts";
import { completionName, writeCompletion } from "../image/completion.ts";
import { makeExecutable } from "../image/executable.ts";
import { placeholderAgentImage, placeholderImage } from "../render/object.ts";
import { type ArchivedFile, archiveOf } from "./archive.ts";

const execute = promisify(execFile);

const chart = join(root, "knative/chart");
const overlays = join(root, "knative/overlays");

/** Files by name. */
export type Contents = ReadonlyMap<string, Uint8Array>;

/** What is written into each file. */
export interface ReleaseNames {
  readonly version: string;
  /** Registry and name of the image, without a tag. */
  readonly image: string;
}

/** The image of the agents, which stands beside the other one. */
export function agentImageOf(image: string): string {
  return `${image}-agent`;
}

/** The chart, as Helm packages it. */
export async function chartOf({ version, image }: ReleaseNames): Promise<Contents> {
  const entries = await readdir(chart, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files = paths.map(async (path): Promise<ArchivedFile> => {
    const name = relative(chart, path);
    const text = await readFile(path, "utf8");
    return { path: `sluice/${name}`, content: Buffer.from(named(name, text, { version, image })) };
  });
  return new Map([[`sluice-${version}.tgz`, archiveOf(await Promise.all(files))]]);
}

/** Throws Error if a file has no place for a name that it must contain. */
function named(name: string, text: string, { version, image }: ReleaseNames): string {
  const replaced = (pattern: RegExp, replacement: string) => {
    if (!pattern.test(text)) throw new Error(`${name} of the chart has nothing like ${pattern}`);
    return text.replaceAll(pattern, replacement);
  };
  if (name === "Chart.yaml") return replaced(/^(version|appVersion): .*$/gm, `$1: ${JSON.stringify(version)}`);
  if (name === "values.yaml")
    return replaced(new RegExp(`^  repository: ${RegExp.escape(placeholderImage)}$`, "gm"), `  repository: ${image}`);
  return text;
}

/** Each overlay, as `kubectl kustomize` builds it. Rejects without kubectl. */
export async function overlaysOf({ version, image }: ReleaseNames): Promise<Contents> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-release-"));
  try {
    const built = new Map<string, Uint8Array>();
    for (const overlay of (await readdir(overlays)).sort()) {
      const resources = [relative(folder, join(overlays, overlay))];
      const images = [
        { name: placeholderImage, newName: image, newTag: version },
        { name: placeholderAgentImage, newName: agentImageOf(image), newTag: version },
      ];
      const kind = { apiVersion: "kustomize.config.k8s.io/v1beta1", kind: "Kustomization" };
      await writeFile(join(folder, "kustomization.yaml"), dump({ ...kind, resources, images }));
      const { stdout } = await execute("kubectl", ["kustomize", folder], { maxBuffer: 64 * 1024 * 1024 });
      built.set(`${overlay}.yaml`, Buffer.from(stdout));
    }
    return built;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The plugin for users who have Node, and an archive with the executable for this machine's platform. */
export async function pluginOf({ version }: ReleaseNames): Promise<Contents> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-release-"));
  try {
    const [script, program] = [join(folder, "kubectl-sluice"), join(folder, "executable")];
    await bundlePlugin(script, version);
    await makeExecutable(script, program);
    await writeCompletion(script);
    const completion = await readFile(join(folder, completionName));
    const archive = archiveOf([
      { path: "kubectl-sluice", content: await readFile(program), isExecutable: true },
      { path: completionName, content: completion, isExecutable: true },
    ]);
    const architecture = process.arch === "x64" ? "amd64" : process.arch;
    return new Map<string, Uint8Array>([
      ["kubectl-sluice", await readFile(script)],
      [completionName, completion],
      [`kubectl-sluice-${process.platform}-${architecture}.tar.gz`, archive],
    ]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * `npm run release -- VERSION --dir DIR`: writes what users of a version download. README.md of `knative` lists the files.
 *
 * Exit codes: 0 all files are there; 1 it refuses, or a program that it needs is missing; 2 the command line is wrong.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { root } from "../image/bundling.ts";
import { placeholderImage } from "../render/object.ts";
import { type ReleaseOrder, readReleaseOrder } from "./arguments.ts";
import { chartOf, overlaysOf, pluginOf } from "./contents.ts";

const execute = promisify(execFile);
const sums = "SHA256SUMS";

/** A mistake that the user has to correct first. */
class ReleaseRefused extends Error {}

/** A file that no commit has would be in the release, and nothing could show later what it was. */
async function refuseDirtyTree(): Promise<void> {
  const { stdout } = await execute("git", ["status", "--porcelain"], { cwd: root }).catch((error: unknown) => {
    const [firstLine] = messageOf(error).trim().split("\n").slice(-1);
    throw new ReleaseRefused(`git cannot say whether the tree has changes: ${firstLine}`);
  });
  const changed = stdout.split("\n").filter(Boolean);
  if (changed.length === 0) return;
  const [first = ""] = changed;
  const others = changed.length > 1 ? ` and ${changed.length - 1} more` : "";
  throw new ReleaseRefused(
    `the tree has changes that are in no commit: ${first.slice(3)}${others}; commit or remove them`,
  );
}

async function makeEmpty(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
    const [found] = await readdir(folder);
    if (found !== undefined) throw new ReleaseRefused(`${folder} is not empty: it has ${found}; name a new folder`);
  } catch (error) {
    if (error instanceof ReleaseRefused) throw error;
    throw new ReleaseRefused(`${folder} cannot be used: ${messageOf(error)}`);
  }
}

/** The image of package.json, if that names one. */
async function usualImage(): Promise<string> {
  const manifest: { readonly sluice?: { readonly image?: string } } = JSON.parse(
    await readFile(join(root, "package.json"), "utf8"),
  );
  return manifest.sluice?.image || placeholderImage;
}

async function release({ version, folder, image: asked }: ReleaseOrder): Promise<void> {
  await refuseDirtyTree();
  await makeEmpty(folder);
  const image = asked ?? (await usualImage());
  const naming = { version, image };
  // The step that fails soonest comes first: the executable takes ten seconds.
  const overlays = await overlaysOf(naming).catch((error: NodeJS.ErrnoException) => {
    throw error.code === "ENOENT"
      ? new ReleaseRefused("there is no kubectl on PATH, which builds the overlays")
      : error;
  });
  const files = new Map([...overlays, ...(await chartOf(naming)), ...(await pluginOf(naming))]);
  const names = [...files.keys()].sort();
  const lines = names.map((name) => {
    const sum = createHash("sha256")
      .update(files.get(name) ?? "")
      .digest("hex");
    return `${sum}  ${name}\n`;
  });
  try {
    for (const [name, content] of files)
      await writeFile(join(folder, name), content, { mode: /^kubectl[^.]*$/.test(name) ? 0o755 : 0o644 });
    await writeFile(join(folder, sums), lines.join(""));
  } catch (error) {
    // Half a release looks like a whole one.
    for (const name of [...names, sums]) await rm(join(folder, name), { force: true });
    throw error;
  }
  for (const name of [...names, sums]) console.log(name);
  if (image === placeholderImage)
    console.error(`The image ${image} is a placeholder, and no registry has it: name yours with --image.`);
}

const order = readReleaseOrder(process.argv.slice(2));
if ("mistake" in order) {
  console.error(`release: ${order.mistake}`);
  process.exit(2);
}
try {
  await release({ ...order, folder: resolve(order.folder) });
} catch (error) {
  if (!(error instanceof ReleaseRefused)) throw error;
  console.error(`release: ${error.message}`);
  process.exitCode = 1;
}

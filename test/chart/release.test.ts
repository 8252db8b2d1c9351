/** `npm run release`, on a copy of the tree in which everything is committed. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { appendFile, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { after, before, suite, test } from "node:test";
import { promisify } from "node:util";
import { load, loadAll } from "js-yaml";
import { archiveOf } from "../../knative/release/archive.ts";
import { readReleaseOrder } from "../../knative/release/arguments.ts";
import { chartOf } from "../../knative/release/contents.ts";
import { ensureAssets } from "../controlplane/assets.ts";
import { Helm, skipWithoutHelm } from "../support/helm.ts";
import { isWorkload } from "../support/installed.ts";
import type { Built } from "../support/kubectl.ts";
import { type PluginOutput, runProgram } from "../support/plugin.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";

const execute = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const naming = { version: "1.2.3-rc.1", image: "registry.example/team/sluice" };
const agents = ["fencing-node-deletion.yaml", "fencing.yaml"];
const overlays = ["broker.yaml", "direct.yaml", ...agents, "outside.yaml", "restart.yaml", "standalone.yaml"];
const architecture = process.arch === "x64" ? "amd64" : process.arch;
const archive = `kubectl-sluice-${process.platform}-${architecture}.tar.gz`;
const chart = `sluice-${naming.version}.tgz`;
/** Before the first test, because the runner takes a file whose tests have ended for one that is to end. */
const skip = (await skipWithoutHelm()) || (await skipWithoutControlPlane());

test("a wrong command line is answered by one line that says what to write", () => {
  const mistakes: Readonly<Record<string, RegExp>> = {
    "": /^it takes one VERSION; given: 0; write npm run release -- VERSION --dir DIR/,
    "1.0.0 2.0.0 --dir d": /^it takes one VERSION; given: 2; /,
    "1.0.0": /^there is no --dir; write /,
    "1.0.0 --dir d --force": /^Unknown option '--force'; write /,
    "1.0.0 --dir d --image registry.example/sluice:1": /^--image is "registry.example\/sluice:1"; write /,
    "1.0.0 --dir d --image sluice": /^--image is "sluice"; write /,
  };
  for (const wrong of ["v1.0.0", "1.0", "01.0.0", "1.0.0+5", "1.0.0-", "latest", "1.0.0-a..b"])
    Object.assign(mistakes, { [`${wrong} --dir d`]: /^VERSION is ".+"; write it as 0\.2\.0 or 0\.2\.0-rc\.1, / });
  for (const [line, expected] of Object.entries(mistakes)) {
    const order = readReleaseOrder(line.split(" ").filter(Boolean));
    assert.ok("mistake" in order, line);
    assert.match(order.mistake, expected);
  }
  for (const version of ["0.1.0", "10.20.30", "1.0.0-rc.1", "1.0.0-0a-b"]) {
    const read = readReleaseOrder([version, "--dir", "d", "--image", "localhost:5000/a/sluice"]);
    assert.deepEqual(read, { version, folder: "d", image: "localhost:5000/a/sluice" });
  }
});

test("an archive refuses a path that it would cut", () => {
  assert.throws(() => archiveOf([{ path: "a".repeat(101), content: new Uint8Array() }]), /too long for an archive/);
});

suite("a release", { skip }, () => {
  let folder: string;
  let tree: string;
  let made: string;
  let path: string;

  const release = (line: string, more: NodeJS.ProcessEnv = {}): Promise<PluginOutput> => {
    const args = [join(tree, "knative/release/main.ts"), ...line.split(" ")];
    return runProgram(process.execPath, args, { ...process.env, PATH: path, ...more });
  };
  const git = (...args: string[]) => {
    const author = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
    return execute("git", [...author, ...args], { cwd: tree, env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null" } });
  };
  const read = (name: string) => readFile(join(made, name), "utf8");

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-release-test-"));
    [tree, made] = [join(folder, "tree"), join(folder, "deep/made")];
    for (const name of ["functions", "knative", "triggers", "package.json", "package-lock.json", ".gitignore"])
      await cp(join(root, name), join(tree, name), { recursive: true });
    await symlink(join(root, "node_modules"), join(tree, "node_modules"));
    path = [dirname((await ensureAssets(console.error)).concat("/kubectl")), process.env.PATH].join(delimiter);
    await git("init", "--quiet");
    await appendFile(join(tree, ".git/info/exclude"), "node_modules\n");
    await git("add", ".");
    await git("commit", "--quiet", "--message", "Everything");
    const { code, stdout, stderr } = await release(`${naming.version} --dir ${made} --image ${naming.image}`);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.deepEqual(stdout.trim().split("\n").sort(), (await readdir(made)).sort());
  });

  after(() => rm(folder, { recursive: true, force: true }));

  test("it holds the chart, one file for each overlay, the plugin with and without Node, and their sums", async () => {
    const plugin = ["kubectl-sluice", "kubectl_complete-sluice", archive];
    assert.deepEqual((await readdir(made)).sort(), ["SHA256SUMS", ...overlays, chart, ...plugin].sort());
    const { stdout } = await execute("sha256sum", ["--check", "--strict", "SHA256SUMS"], { cwd: made });
    assert.equal(stdout.trim().split("\n").length, overlays.length + plugin.length + 1);
    assert.equal((await git("status", "--porcelain")).stdout, "");
  });

  test("both versions of Helm take the chart, which has the version and the image", async () => {
    const { helms, close } = await Helm.open();
    try {
      for (const helm of helms) {
        const description = load(await helm.run("show", "chart", join(made, chart)));
        const { version, appVersion } = description as { version: string; appVersion: string };
        assert.deepEqual([version, appVersion], [naming.version, naming.version]);
        const objects = await helm.render({}, { chart: join(made, chart) });
        assert.deepEqual(imagesOf(objects), [`${naming.image}:${naming.version}`]);
        assert.equal(objects.filter(({ kind }) => kind === "CustomResourceDefinition").length, 2);
      }
    } finally {
      await close();
    }
  });

  test("the same tree gives the same chart at another time, by another process", async () => {
    const [again] = (await chartOf(naming)).values();
    assert.ok(again !== undefined && Buffer.from(again).equals(await readFile(join(made, chart))));
  });

  test("each overlay is what the tree builds, with the image of the release", async () => {
    for (const file of overlays) {
      const objects = loadAll(await read(file)) as unknown as Built[];
      const images = imagesOf(objects);
      const shipped = agents.includes(file) ? [naming.image, `${naming.image}-agent`] : [naming.image];
      const expected = shipped.map((image) => `${image}:${naming.version}`);
      assert.deepEqual(images.toSorted(), expected.toSorted(), file);
      const overlay = join(root, "knative/overlays", file.replace(/\.yaml$/, ""));
      const { stdout } = await execute("kubectl", ["kustomize", overlay], { env: { ...process.env, PATH: path } });
      const named = (all: readonly Built[]) => all.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort();
      assert.deepEqual(named(objects), named(loadAll(stdout) as unknown as Built[]));
    }
  });

  test("the plugin says the version, and the executable runs with an empty PATH", async () => {
    assert.match(await read("kubectl-sluice"), new RegExp(`"?${naming.version}"`));
    const unpacked = join(folder, "unpacked");
    await mkdir(unpacked);
    await execute("tar", ["-xzf", join(made, archive), "-C", unpacked]);
    assert.deepEqual((await readdir(unpacked)).sort(), ["kubectl-sluice", "kubectl_complete-sluice"]);
    const { code, stdout } = await runProgram(join(unpacked, "kubectl-sluice"), ["--help"], { PATH: "" });
    assert.equal(code, 0);
    assert.match(stdout, /kubectl sluice why/);
  });

  test("what stands in its way is one line and code 1, and nothing is written", async () => {
    const empty = join(folder, "empty");
    const refused = async (line: string, expected: RegExp, more?: NodeJS.ProcessEnv) => {
      const { code, stdout, stderr } = await release(line, more);
      assert.deepEqual([code, stdout], [1, ""], stderr);
      assert.match(stderr, expected);
    };
    await refused(`1.0.0 --dir ${made}`, /^release: \S+\/made is not empty: it has \S+; name a new folder\n$/);
    await refused(`1.0.0 --dir ${join(tree, "package.json")}`, /^release: \S+package\.json cannot be used: .+\n$/);
    const git = (await execute("sh", ["-c", "command -v git"])).stdout.trim();
    const gitAlone = join(folder, "git-alone");
    await mkdir(gitAlone);
    await symlink(git, join(gitAlone, "git"));
    await refused(`1.0.0 --dir ${empty}`, /^release: there is no kubectl on PATH, .+\n$/, { PATH: gitAlone });
    await writeFile(join(tree, "knative/new.yaml"), "");
    await refused(
      `1.0.0 --dir ${empty}`,
      /^release: the tree has changes that are in no commit: knative\/new\.yaml; commit or remove them\n$/,
    );
    await rm(join(tree, "knative/new.yaml"));
    assert.deepEqual(await readdir(empty), []);
    assert.equal((await release("1.0 --dir x")).code, 2);
  });
});

/** The images of the workloads, each once. */
function imagesOf(objects: readonly Built[]): string[] {
  const containers = objects.filter(isWorkload).flatMap(({ spec }) => spec.template.spec.containers);
  return [...new Set(containers.map((container) => (container as unknown as { readonly image: string }).image))];
}

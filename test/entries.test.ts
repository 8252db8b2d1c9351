/**
 * Holds the calls of one reconcile to few ways between files, so that a reader who follows them is not sent to and fro.
 *
 * A way is a call site and a file: the call is the first of that site to a function which another file of the product declares.
 * A function that is called by way of a library (`filter(isOther)`) counts for the site that calls the library. Counted are the
 * ways into the folder of the function and into the rooms through which every reconcile goes.
 */
import assert from "node:assert/strict";
import { registerHooks, stripTypeScriptTypes } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { getCallSites } from "node:util";
import { parse } from "acorn";

const root = new URL("..", import.meta.url).href;
const rooms = /^functions\/shared\/(reconcile|transaction|contract)\//;

/** The ways since the last reconcile began: the called file and function, by call site and file. */
const ways = new Map<string, { readonly file: string; readonly called: string }>();

/** Each function that a file of the product declares calls this first. */
function noteEntry(file: string, called: string): void {
  const callers = getCallSites(20).slice(2);
  const caller = callers.find(({ scriptName }) => scriptName.startsWith("file:") || scriptName.startsWith("/"));
  if (caller === undefined) return;
  const from = caller.scriptName.replace(root, "").replace(fileURLToPath(root), "");
  const way = `${from}:${caller.lineNumber}:${caller.columnNumber} ${file}`;
  if (from.startsWith("functions/") && from !== file && !ways.has(way)) ways.set(way, { file, called });
}

/** A module whose functions report that they are entered. Its lines keep their numbers. */
function noting(file: string, text: string): string {
  const { body } = parse(text, { ecmaVersion: "latest", sourceType: "module" });
  return body.reduceRight((whole, statement) => {
    const declared = statement.type === "ExportNamedDeclaration" ? statement.declaration : statement;
    if (declared?.type !== "FunctionDeclaration") return whole;
    const at = declared.body.start + 1;
    return `${whole.slice(0, at)} noteEntry("${file}", "${declared.id.name}"); ${whole.slice(at)}`;
  }, text);
}

Object.assign(globalThis, { noteEntry });
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.startsWith(`${root}functions/`)) return loaded;
    const text = stripTypeScriptTypes(String(loaded.source));
    return { format: "module", source: noting(url.slice(root.length), text), shortCircuit: true };
  },
});

// These imports load the product, and must come after the hook.
const { Harness } = await import("./unit/shared/reconcile/harness.ts");
const { Volumes } = await import("./unit/shared/suspension/volumes.ts");

/** The most entries of one file, and the number of ways that lead back to a file that was entered before. */
function figuresOf(folder: string) {
  const counted = [...ways].filter(([, { file }]) => file.startsWith(`functions/${folder}/`) || rooms.test(file));
  const entered = [...Map.groupBy(counted, ([, { file }]) => file).values()];
  const most = Math.max(...entered.map(({ length }) => length));
  const report = counted.map(([way, { called }]) => `${way} ${called}`).join("\n");
  return { files: entered.length, most, returns: counted.length - entered.length, report };
}

test("a rollout that takes a pod enters no file more than three times, and goes back at most 10 times", async () => {
  const on = await new Harness().prepare();
  ways.clear();
  await on.run(true);
  const { files, most, returns, report } = figuresOf("advance-zone-rollout");
  assert.equal(on.count("delete pods"), 1);
  assert.ok(files > 15, report);
  assert.ok(most <= 3 && returns <= 10, `${most} entries of one file, ${returns} returns:\n${report}`);
});

test("the removal of a volume enters no file more than four times, and goes back at most 12 times", async () => {
  const on = new Volumes("600s", { "removal-mode": "All" });
  await on.suspended();
  await on.elapse(600_000);
  await on.until(
    () => on.count("delete persistentvolumeclaims") > 0,
    async () => {
      ways.clear();
      await on.collect();
    },
  );
  const { files, most, returns, report } = figuresOf("gc-suspended-groups");
  assert.ok(files > 15, report);
  assert.ok(most <= 4 && returns <= 12, `${most} entries of one file, ${returns} returns:\n${report}`);
});

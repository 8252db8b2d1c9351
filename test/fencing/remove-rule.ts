/** Loaded before a program of the product: it loads one file of it without a rule. */
import { registerHooks, stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { removedFenceRules, removedRuleVariable } from "./removed-rules.ts";

const name = process.env[removedRuleVariable];
const removed = removedFenceRules.find(({ rule }) => rule === name);
if (removed === undefined) throw new Error(`no rule ${name} can be removed`);
const url = pathToFileURL(join(import.meta.dirname, "../..", removed.file)).href;

registerHooks({
  load(loading, context, next) {
    const loaded = next(loading, context);
    if (loading !== url) return loaded;
    const parts = String(loaded.source).split(removed.text);
    if (parts.length !== 2) throw new Error(`${removed.file} does not have ${removed.text} once`);
    const source = stripTypeScriptTypes(parts.join(removed.instead));
    return { format: "module", source, shortCircuit: true };
  },
});

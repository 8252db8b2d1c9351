/** Loaded before a program of the product: it loads files of it with the changes that the environment names. */
import { registerHooks, stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type ChangedSource, changedSourcesVariable } from "./changed-sources.ts";

const changes = JSON.parse(process.env[changedSourcesVariable] ?? "") as readonly ChangedSource[];
const urlOf = ({ file }: ChangedSource): string => pathToFileURL(join(import.meta.dirname, "../..", file)).href;

/** Throws if the source does not have the text once. */
function change(source: string, { file, text, instead }: ChangedSource): string {
  const parts = source.split(text);
  if (parts.length !== 2) throw new Error(`${file} does not have ${text} once`);
  return parts.join(instead);
}

registerHooks({
  load(loading, context, next) {
    const loaded = next(loading, context);
    const own = changes.filter((one) => urlOf(one) === loading);
    if (own.length === 0) return loaded;
    const source = stripTypeScriptTypes(own.reduce(change, String(loaded.source)));
    return { format: "module", source, shortCircuit: true };
  },
});

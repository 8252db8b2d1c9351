/**
 * The script of the page: idiomorph with its licence, and then our own. It reads both from files. In a bundle there are no such
 * files, so that the build puts the text there (`knative/image/bundle.ts`).
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const minified = fileURLToPath(import.meta.resolve("idiomorph/dist/idiomorph.min.js"));
const [idiomorph, licence] = [minified, join(minified, "../../LICENSE")].map((path) => readFileSync(path, "utf8"));
const own = readFileSync(join(import.meta.dirname, "refresh.js"), "utf8");

export const script = `/* idiomorph\n\n${licence}*/\n${idiomorph}\n${own}`;

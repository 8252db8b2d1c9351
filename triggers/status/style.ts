import { createHash } from "node:crypto";
export const style = "";
export const stylePath = `assets/style-${createHash("sha256").update(style).digest("hex").slice(0, 12)}.css`;

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vite";

/**
 * Puts the licences of what others wrote beside the page that has it in it, for who
 * has the page and not their packages.
 */
function licences() {
  const isLicence = (file) => /^(licen[cs]e|copying|notice|copyright)/i.test(file.name) && file.isFile();
  return {
    name: "licences",
    generateBundle(_options, bundle) {
      const modules = Object.values(bundle).flatMap((part) => part.moduleIds ?? []);
      const folders = modules.map((id) => /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(id));
      const packages = new Map(folders.filter(Boolean).map(([, folder, name]) => [name, folder]));
      for (const [name, folder] of [...packages].sort()) {
        for (const file of readdirSync(folder, { withFileTypes: true }).filter(isLicence)) {
          const source = readFileSync(join(folder, file.name));
          this.emitFile({ type: "asset", fileName: `licences/${name}/${file.name}`, source });
        }
      }
    },
  };
}

/**
 * Puts script and style into the page, and forbids the page every request:
 * only this script and this style run, by their hashes.
 */
function oneFile() {
  const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = bundle["index.html"];
      const isOfPage = (part) => part !== page && !part.fileName.startsWith("licences/");
      const parts = Object.values(bundle).filter(isOfPage);
      // `</script` in a string of the code would end the element.
      const script = parts
        .filter((part) => part.type === "chunk")
        .map((part) => part.code.replaceAll("</script", "<\\/script"))
        .join("\n");
      const style = parts
        .filter((part) => part.type === "asset" && part.fileName.endsWith(".css"))
        .map((part) => part.source)
        .join("\n");
      const policy =
        `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
        "img-src data: blob:; base-uri 'none'; form-action 'none'";
      const meta = `<meta http-equiv="Content-Security-Policy" content="${policy}" />`;
      page.source = page.source
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/, "")
        .replace(/<meta charset="utf-8" \/>/, (charset) => `${charset}\n    ${meta}`)
        .replace("</head>", () => `  <style>${style}</style>\n  </head>`)
        .replace("</body>", () => `  <script type="module">${script}</script>\n  </body>`);
      for (const part of parts) delete bundle[part.fileName];
    },
  };
}

export default defineConfig({
  plugins: [licences(), oneFile()],
  build: {
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 2000,
  },
});

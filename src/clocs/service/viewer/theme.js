/* Light or dark: what the system prefers, until somebody chooses. Runs before the page is painted: no flash. */
(() => {
    const key = "clocs-theme";
    const prefersDark = matchMedia("(prefers-color-scheme: dark)");
    const current = () => localStorage.getItem(key) ?? (prefersDark.matches ? "dark" : "light");

    function apply() {
        const theme = current();
        document.documentElement.dataset.theme = theme;
        const button = document.getElementById("theme-switch");
        if (button) {
            const other = theme === "dark" ? "light" : "dark";
            button.textContent = other === "dark" ? "Dark" : "Light";
            button.setAttribute("aria-label", `Switch to ${other} colours`);
        }
        document.dispatchEvent(new Event("themechange"));
    }

    apply();
    prefersDark.addEventListener("change", apply);
    document.addEventListener("DOMContentLoaded", () => {
        document.getElementById("theme-switch").addEventListener("click", () => {
            localStorage.setItem(key, current() === "dark" ? "light" : "dark");
            apply();
        });
        apply();
    });
})();

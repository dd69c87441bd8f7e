class QwenVL:
    def _prepare_input(self, prompt):
        messages = [{"role": "system", "content": system_prompt}]
        messages = [{"role": "system", "content": "Be brief."}]
        content.append({"type": "text", "text": prompt})

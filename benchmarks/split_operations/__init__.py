"""Operations on split arrays against jax: what is drawn, and the script that compiles both."""
